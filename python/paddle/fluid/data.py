"""fluid.data."""

from paddle._basics.mode import static_only
from paddle.static.creation import data_variable
from paddle.utils.deprecated import deprecated

__all__ = ["data"]


@deprecated(update_to="paddle.static.data", since="2.0.0")
@static_only
def data(name, shape, dtype="float32", lod_level=0):
    """A Variable that ``Executor.run`` is fed with, its shape and type checked then.

    Args:
        name (str): what the feed calls it.
        shape (list|tuple): None or -1 where any size goes.
        dtype (VarType|numpy type|str): its element type.
        lod_level (int): levels of sequence nesting.

    Returns:
        Variable.
    """
    return data_variable(name, shape, dtype, lod_level)
