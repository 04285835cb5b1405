"""Arrays of one element that convert to Python numbers with every numpy version.

Scripts write ``float(exe.run(...)[0])`` and ``"%f" % loss.numpy()`` on arrays of shape [1], and ``"%f" % row`` on the
rows of an array of shape [N, 1]. numpy up to 2.3 converts these; 2.4 refuses arrays that have a dimension. With numpy
2.4, fetched results and ``Tensor.numpy()`` of one element, and those whose last size is 1, are instances of the classes
below; all other arrays are plain numpy arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__: list[str] = []


class _Converting(np.ndarray):
    """An array of which results with one element convert to numbers; other results are plain arrays."""

    def __reduce__(self) -> Any:
        return self.view(np.ndarray).__reduce__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.view(np.ndarray).__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        if return_scalar:
            return array[()]
        return _viewed(array)


class OneElement(_Converting):
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


class Columns(_Converting):
    """An array whose last size is 1: a part of one element, such as a row of [N, 1], is a :class:`OneElement`."""

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        return _viewed(part) if isinstance(part, np.ndarray) else part

    def __iter__(self) -> Iterator[Any]:
        return (_viewed(part) if part.ndim else part[()] for part in self.view(np.ndarray))


def _viewed(array: np.ndarray) -> np.ndarray:
    """`array` as an instance of the class for its shape."""
    if not array.ndim:
        return array.view(np.ndarray)
    if array.size == 1:
        return array.view(OneElement)
    return array.view(Columns if array.ndim > 1 and array.shape[-1] == 1 else np.ndarray)


_version = tuple(int(n) for n in np.__version__.split(".")[:2])
_CONVERTS = _version < (2, 4)
#: the class of arrays of one element that the engine returns
CLASS: type[np.ndarray] = np.ndarray if _CONVERTS else OneElement
#: the class of arrays whose last size is 1
COLUMNS: type[np.ndarray] = np.ndarray if _CONVERTS else Columns
