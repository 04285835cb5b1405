"""Padding of tensors: constant, reflect, replicate, circular."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._dispatch.argument_checks import check_arguments
from paddle._programs.variable import Variable

__all__ = ["pad"]

_FORMATS = {3: ("NCL", "NLC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}


def pad_all(x: Any, paddings: Any, pad_value: float = 0.0, name: str | None = None) -> Tensor:
    """`x` padded with `pad_value`; `paddings` has two numbers per dimension, the first dimension first."""
    check_arguments("pad", x)
    return named(name, _ops.pad, x, paddings=list(paddings), pad_value=float(pad_value))


def _six(pad: Any, rank: int) -> Any:
    """Six paddings for three axes, the last axis first; axes that `x` lacks get zeros."""
    if not isinstance(pad, Variable):
        pad = list(pad)
        return [0, 0, 0, 0, *pad] if rank == 3 else [*pad, *[0] * (2 * (5 - rank))]
    if rank == 5:
        return pad
    zeros = _ops.fill_constant(shape=[4 if rank == 3 else 2], dtype=pad.dtype, value=0.0)
    return _ops.concat([zeros, pad] if rank == 3 else [pad, zeros], axis=0)


def pad(
    x: Any,
    pad: Any,
    mode: str = "constant",
    value: float = 0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """`x` padded at its borders.

    Args:
        x: float32, float64, int32 or int64 Tensor.
        pad: a list of int, or an int32 Tensor: the elements before and after each spatial axis, the last axis first:
            [left, right], then top and bottom, then front and back. In mode "constant" a list with two numbers for each
            dimension of `x` (of any rank) starts with the first dimension. Negative numbers crop.
        mode: "constant" pads with `value`; "reflect" mirrors at the border element without repeating it (the axis must
            be longer than its paddings); "replicate" repeats the border element; "circular" continues at the opposite
            side.
        value: the constant of mode "constant".
        data_format: "NCL", "NLC" for 3 dimensions, "NCHW", "NHWC" for 4, "NCDHW", "NDHWC" for 5.
        name: a name for the output.

    Returns:
        Tensor of the data type of `x`.

    Raises:
        AssertionError: for another mode, data_format or number of dimensions.
        ValueError: for a wrong number of paddings, or paddings that the mode does not allow.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[[1.0, 2.0, 3.0]]])
        >>> paddle.nn.functional.pad(x, [2, 1], mode="reflect", data_format="NCL").numpy().tolist()
        [[[3.0, 2.0, 1.0, 2.0, 3.0, 2.0]]]
        >>> paddle.nn.functional.pad(paddle.ones([1, 2]), [1, 0, 0, 1], value=5.0).numpy().tolist()
        [[5.0, 5.0, 5.0], [1.0, 1.0, 5.0]]
    """
    assert mode in ("reflect", "replicate", "constant", "circular"), (
        f"pad: mode must be constant, reflect, replicate or circular, got {mode!s:.200}"
    )
    data_format, rank = data_format.upper(), len(x.shape)
    known = [form for both in _FORMATS.values() for form in both]
    assert data_format in known, f"pad: data_format must be one of {', '.join(known)}, got {data_format!s:.200}"
    if mode == "constant" and isinstance(pad, list) and len(pad) == 2 * rank:
        return pad_all(x, pad, value, name)
    assert rank in _FORMATS, f"pad: x must have 3, 4 or 5 dimensions, got {rank}"
    assert data_format in _FORMATS[rank], (
        f"pad: data_format of an x with {rank} dimensions must be one of {_FORMATS[rank]}, got {data_format}"
    )
    last = data_format.endswith("C")
    first = 1 if last else 2
    # pad3d takes 3 spatial axes: missing ones of size 1 are inserted after a single axis, or before two.
    added = {3: [first + 1, first + 2], 4: [first], 5: []}[rank]
    paddings = _six(pad, rank)
    if isinstance(paddings, Variable) and not in_static_mode():
        paddings = [int(n) for n in paddings.numpy().reshape(-1)]
    slots: dict[str, Any] = (
        {"paddings": [], "Paddings": paddings} if isinstance(paddings, Variable) else {"paddings": paddings}
    )
    if added:
        x = _ops.unsqueeze2(x, axes=added)
    out = named(name, _ops.pad3d, x, mode=mode, value=float(value), data_format="NDHWC" if last else "NCDHW", **slots)
    return _ops.squeeze2(out, axes=added) if added else out
