"""Places for operators that run on several devices."""

from __future__ import annotations

from paddle.nn.layer_helper import LayerHelper

__all__: list[str] = []


def get_places(device_count: int | None = None, device_type: str | None = None):
    """A variable that holds places; the operator get_places must be there.

    Args:
        device_count (int, optional): how many.
        device_type (str, optional): of which kind.
    """
    helper = LayerHelper("get_places")
    places = helper.create_variable_for_type_inference("float32")
    given = {"device_count": device_count, "device_type": device_type}
    helper.append_op(
        type="get_places", outputs={"Out": [places]}, attrs={k: v for k, v in given.items() if v is not None}
    )
    return places
