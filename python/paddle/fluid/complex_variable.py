"""ComplexVariable: a complex tensor of Paddle 1.8, stored as two variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle._basics.dtypes import VarType

__all__ = ["ComplexVariable"]


class ComplexVariable:
    """The real and the imaginary part as two variables, as in Paddle 1.8. (Tensors of 2.0 have complex data types.)

    Args:
        real, imag (Tensor|Variable): of the same shape and data type.

    Raises:
        AssertionError: if shapes or data types differ.

    Examples:
        >>> import numpy as np, paddle, paddle.fluid as fluid
        >>> part = paddle.to_tensor(np.float32([1, 2]))
        >>> fluid.ComplexVariable(part, part).numpy()
        array([1.+1.j, 2.+2.j], dtype=complex64)
    """

    def __init__(self, real: Any, imag: Any) -> None:
        assert list(real.shape) == list(imag.shape), f"the parts must have one shape, got {real.shape} and {imag.shape}"
        assert real.dtype == imag.dtype, f"the parts must have one data type, got {real.dtype} and {imag.dtype}"
        self.real, self.imag = real, imag

    @property
    def dtype(self) -> str:
        """ "complex64" for half and single precision, else "complex128"."""
        return "complex64" if self.real.dtype in (VarType.FP16, VarType.FP32) else "complex128"

    @property
    def shape(self) -> Any:
        """The shape of both parts."""
        return self.real.shape

    @property
    def name(self) -> dict[str, str]:
        """The names of the parts. Assign a str, to which .real and .imag are appended, or a pair of names."""
        return {"real": self.real.name, "imag": self.imag.name}

    @name.setter
    def name(self, name: Any) -> None:
        if isinstance(name, str):
            name = (f"{name}.real", f"{name}.imag")
        elif not isinstance(name, (tuple, list)) or len(name) != 2:
            raise ValueError(f"the name of a ComplexVariable is a str, or two in a tuple or list, got {name!r:.200}")
        self.real.name, self.imag.name = name

    def numpy(self) -> np.ndarray:
        """The values as a complex array."""
        return self.real.numpy() + 1j * self.imag.numpy()

    def __str__(self) -> str:
        return f"REAL: {self.real}IMAG: {self.imag}"

    __repr__ = __str__
