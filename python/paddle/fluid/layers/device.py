"""fluid.layers.device: get_places."""

from __future__ import annotations

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle.nn.layer_helper import LayerHelper

__all__: list[str] = []


def get_places(device_count: int | None = None, device_type: str | None = None):
    """A variable with a list of places.

    Args:
        device_count (int, optional): number of devices.
        device_type (str, optional): their type.
    """
    helper = LayerHelper("get_places")
    places = helper.create_variable(name=unique_name.generate(f"{helper.name}.out"), type=VarType.PLACE_LIST)
    given = {"device_count": device_count, "device_type": device_type}
    helper.append_op(
        type="get_places", outputs={"Out": [places]}, attrs={k: v for k, v in given.items() if v is not None}
    )
    return places
