"""Printing of Tensors."""

from __future__ import annotations

from paddle._basics import numpy as np

from .checks import check_type

__all__: list[str] = []


class PrintOptions:
    """The options that `set_printoptions` sets."""

    precision = 8
    threshold = 1000
    edgeitems = 3
    sci_mode = False


_options = PrintOptions()


def set_printoptions(precision=None, threshold=None, edgeitems=None, sci_mode=None) -> None:
    """Set how Tensors are printed.

    Args:
        precision (int, optional): digits after the point; initially 8.
        threshold (int, optional): a Tensor of more elements is abbreviated; initially 1000.
        edgeitems (int, optional): items at each end of an abbreviated dimension; initially 3.
        sci_mode (bool, optional): scientific notation.

    Examples:
        >>> import paddle
        >>> paddle.set_printoptions(precision=2)
        >>> print(paddle.to_tensor([0.5]))
        Tensor(shape=[1], dtype=float32, place=CPUPlace, stop_gradient=True,
               [0.50])
        >>> paddle.set_printoptions(precision=8)
    """
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "sci_mode": sci_mode}
    for name, value in given.items():
        if value is not None:
            check_type(value, name, bool if name == "sci_mode" else int, "set_printoptions")
            setattr(_options, name, value)


def _item(value) -> str:
    if not np.issubdtype(value.dtype, np.floating):
        return str(value)
    if _options.sci_mode:
        return f"{value:.{_options.precision}e}"
    if np.ceil(value) == value:
        return f"{value:.0f}."
    return f"{value:.{_options.precision}f}"


def _edges(array: np.ndarray) -> np.ndarray:
    """The items that an abbreviated print shows."""
    n = _options.edgeitems
    for axis, size in enumerate(array.shape):
        if size > 2 * n:
            array = np.take(array, [*range(n), *range(size - n, size)], axis)
    return array


def _negative(value) -> bool:
    """Complex numbers are ordered by the real part, then the imaginary one."""
    return (value.real, value.imag) < (0, 0) if np.iscomplexobj(value) else bool(value < 0)


class _Layout:
    """The column width and sign column of all items."""

    def __init__(self, shown: np.ndarray) -> None:
        items = list(shown.reshape(-1))
        self.width = max((len(_item(v)) for v in items), default=0)
        self.signed = any(_negative(v) for v in items)

    def item(self, value) -> str:
        text = _item(value)
        if len(text) >= self.width:
            return text
        if self.signed and not _negative(value):
            return " " + text.ljust(self.width - 1)
        return text.ljust(self.width)

    def array(self, array: np.ndarray, short: bool, indent: int) -> str:
        if array.ndim == 0:
            return self.item(array[()])
        n = _options.edgeitems
        if short and len(array) > 2 * n:
            parts = [*array[:n], None, *array[-n:]]
        else:
            parts = list(array)
        if array.ndim == 1:
            return "[" + ", ".join("..." if p is None else self.item(p) for p in parts) + "]"
        texts = ["..." if p is None else self.array(p, short, indent + 1) for p in parts]
        return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(texts) + "]"


def to_string(tensor, prefix: str = "Tensor") -> str:
    """The text that `print` shows for a Tensor."""
    if not tensor._is_initialized():
        return "Tensor(Not initialized)"
    # numpy has no bfloat16: its arrays are bits.
    array = (tensor.astype("float32") if tensor._dtype_name == "bfloat16" else tensor).numpy()
    short = array.size > _options.threshold
    layout = _Layout(_edges(array) if short else array)
    indent = len(prefix) + 1
    data = layout.array(array, short, indent)
    return (
        f"{prefix}(shape={tensor.shape}, dtype={tensor._dtype_name}, place={tensor.place}, "
        f"stop_gradient={tensor.stop_gradient},\n{' ' * indent}{data})"
    )
