"""fluid.data: a feed variable whose shape and type are checked."""

from paddle._basics.mode import static_only
from paddle.static.creation import data_variable
from paddle.utils.deprecated import deprecated

__all__ = ["data"]


@deprecated(update_to="paddle.static.data", since="2.0.0")
@static_only
def data(name, shape, dtype="float32", lod_level=0):
    """A Variable that ``Executor.run`` feeds; its shape and type are checked at each run.

    Args:
        name (str): the key in the feed.
        shape (list|tuple): None or -1 for sizes that vary.
        dtype (VarType|numpy type|str): its element type.
        lod_level (int): levels of sequence nesting.

    Returns:
        Variable.
    """
    return data_variable(name, shape, dtype, lod_level)
