"""Conversion of the argument `places`."""

from __future__ import annotations

from typing import Any

from paddle._basics.mode import _current_expected_place, _get_paddle_place


def place_list(places: Any) -> list[Any]:
    """A list of places, from a place, a name such as "cpu" or "gpu:0", a list of them, or None (the current place)."""
    if places is None:
        return [_current_expected_place()]
    if not isinstance(places, (list, tuple)):
        places = [places]
    return [_get_paddle_place(place) for place in places]
