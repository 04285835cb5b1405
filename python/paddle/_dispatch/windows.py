"""Arguments of convolutions and pools with n spatial dimensions: data formats and paddings."""

from __future__ import annotations

from typing import Any

from .arguments import convert_to_list

__all__: list[str] = []

_FORMATS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def channel_last(data_format: str, dims: int) -> bool:
    """Whether channels come last; ValueError for a format that `dims` dimensions do not have."""
    first, last = _FORMATS[dims]
    if data_format not in (first, last):
        raise ValueError(
            f"Attr(data_format) should be '{first}' or '{last}'. Received Attr(data_format): {data_format!s:.200}."
        )
    return data_format == last


def paddings(
    padding: Any, dims: int, last: bool = False, ceil_mode: bool = False, what: str = "padding"
) -> tuple[list[int], str]:
    """(paddings, padding_algorithm) from the value of the argument `what`.

    An int, `dims` ints, `2 * dims` ints (before and after for each dimension), a pair for each dimension of the input
    with those of batch and channel zero, ``"SAME"`` or ``"VALID"``; ValueError for anything else.
    """
    if type(padding) is int:
        return [padding] * dims, "EXPLICIT"
    if isinstance(padding, str):
        algorithm = padding.upper()
        if algorithm not in ("SAME", "VALID"):
            raise ValueError(f"Unknown {what}: '{padding!s:.200}'. It can only be 'SAME' or 'VALID'.")
        if algorithm == "VALID" and ceil_mode:
            raise ValueError(f"{what}='VALID' can not go with ceil_mode=True")
        return [0] * dims, algorithm
    if not isinstance(padding, (list, tuple)):
        return convert_to_list(padding, dims, what), "EXPLICIT"
    if len(padding) == dims + 2 and isinstance(padding[0], (list, tuple)):
        outer = (padding[0], padding[-1]) if last else (padding[0], padding[1])
        if any(list(pair) != [0, 0] for pair in outer):
            raise ValueError(f"{what}: only the spatial dimensions can be padded, got {padding!s:.200}")
        inner = padding[1:-1] if last else padding[2:]
        padding = [n for pair in inner for n in pair]
    if len(padding) == 2 * dims:
        pairs = convert_to_list(padding, 2 * dims, what)
        # one number for each dimension where all paddings are symmetric
        return pairs[::2] if pairs[::2] == pairs[1::2] else pairs, "EXPLICIT"
    if len(padding) == dims:
        return convert_to_list(padding, dims, what), "EXPLICIT"
    raise ValueError(f"Invalid {what}: {padding!s:.200}")
