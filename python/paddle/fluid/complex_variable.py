"""A complex number of 1.8: two variables, of real and of imaginary parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle._basics.dtypes import VarType

__all__ = ["ComplexVariable"]


class ComplexVariable:
    """Real and imaginary parts side by side, as 1.8 kept complex Tensors. (Tensors of 2.0 are complex themselves.)

    Args:
        real, imag (Tensor|Variable): of one shape and one data type.

    Raises:
        AssertionError: for parts of two shapes or data types.

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
        """ "complex64" of half and single precision, else "complex128"."""
        return "complex64" if self.real.dtype in (VarType.FP16, VarType.FP32) else "complex128"

    @property
    def shape(self) -> Any:
        """The parts' shape."""
        return self.real.shape

    @property
    def name(self) -> dict[str, str]:
        """The parts' names. Set to a text, to which .real and .imag are added, or to two."""
        return {"real": self.real.name, "imag": self.imag.name}

    @name.setter
    def name(self, name: Any) -> None:
        if isinstance(name, str):
            name = (f"{name}.real", f"{name}.imag")
        elif not isinstance(name, (tuple, list)) or len(name) != 2:
            raise ValueError(f"the name of a ComplexVariable is a str, or two in a tuple or list, got {name!r:.200}")
        self.real.name, self.imag.name = name

    def numpy(self) -> np.ndarray:
        """The complex numbers."""
        return self.real.numpy() + 1j * self.imag.numpy()

    def __str__(self) -> str:
        return f"REAL: {self.real}IMAG: {self.imag}"

    __repr__ = __str__
