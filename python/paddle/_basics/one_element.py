"""Arrays of one element that convert to Python numbers with every numpy version.

Scripts write ``float(exe.run(...)[0])`` and ``"%f" % loss.numpy()`` on arrays of shape [1]. numpy up to 2.3 converts
these; 2.4 refuses arrays that have a dimension. With numpy 2.4, fetched results and ``Tensor.numpy()`` of one element
are instances of the class below; all other arrays are plain numpy arrays.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

__all__: list[str] = []


class OneElement(np.ndarray):
    """An array of one element that converts to a number as before numpy 2.4. Results of computations with it are plain
    arrays, unless they have one element.
    """

    def _number(self, kind: type) -> Any:
        if self.size != 1:
            raise TypeError(f"only an array of one element can be converted to {kind.__name__}, got {self.shape}")
        return self.item()

    def __float__(self) -> float:
        return float(self._number(float))

    def __int__(self) -> int:
        return int(self._number(int))

    def __complex__(self) -> complex:
        return complex(self._number(complex))

    def __index__(self) -> int:
        return operator.index(self._number(int))

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.size == 1 else str(self)

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def __reduce__(self) -> Any:
        return self.view(np.ndarray).__reduce__()

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        if return_scalar:
            return array[()]
        return array.view(OneElement if array.size == 1 and array.ndim else np.ndarray)


_version = tuple(int(n) for n in np.__version__.split(".")[:2])
#: the class of arrays of one element that the engine returns
CLASS: type[np.ndarray] = OneElement if _version >= (2, 4) else np.ndarray
