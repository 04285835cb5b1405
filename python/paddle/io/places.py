"""What the user may give as `places`."""

from __future__ import annotations

from typing import Any


def place_list(places: Any) -> list[Any]:
    """A list of places, from a place, a name such as "cpu" or "gpu:0", a list of them, or None (the current)."""
    if places is None:
        return [_current()]
    if not isinstance(places, (list, tuple)):
        places = [places]
    return [_from_name(place) if isinstance(place, str) else place for place in places]


def _current() -> Any:
    from paddle.framework import _current_expected_place

    return _current_expected_place()


def _from_name(name: str) -> Any:
    import paddle

    kind, _, index = name.lower().partition(":")
    if kind == "cpu" and not index:
        return paddle.CPUPlace()
    if kind == "gpu_pinned" and not index:
        return paddle.CUDAPinnedPlace()
    if kind == "gpu" and (not index or index.isdigit()):
        return paddle.CUDAPlace(int(index or 0))
    raise ValueError(f"the device should be 'cpu', 'gpu', 'gpu:x' or 'gpu_pinned', but got {name!r}")
