"""fluid.layers.data and load; ListenAndServ, Send and Recv, which 2.0.2 has here without saying so."""

from __future__ import annotations

from paddle._basics.dtypes import VarType
from paddle._basics.mode import static_only
from paddle.fluid.layers.serving import BlockGuardServ, ListenAndServ, Recv, Send
from paddle.nn.layer_helper import LayerHelper
from paddle.static.creation import data_variable
from paddle.static.py_reader import create_py_reader_by_data, double_buffer, py_reader, read_file

__all__ = ["data", "load", "py_reader", "create_py_reader_by_data", "read_file", "double_buffer"]


@static_only
def data(
    name,
    shape,
    append_batch_size=True,
    dtype="float32",
    lod_level=0,
    type=VarType.LOD_TENSOR,  # noqa: A002
    stop_gradient=True,
):
    """A Variable that ``Executor.run`` is fed with; its shape is not checked then.

    Args:
        name (str): what the feed calls it.
        shape (list|tuple): -1 or None where any size goes.
        append_batch_size (bool): put a batch dimension before `shape`, unless it has an unknown size already.
        dtype (str): its element type.
        lod_level (int): levels of sequence nesting.

    Returns:
        Variable.
    """
    if isinstance(shape, (list, tuple)) and append_batch_size and all(n is not None and n >= 0 for n in shape):
        shape = [-1, *shape]
    return data_variable(name, shape, dtype, lod_level, False, type, stop_gradient)


def load(out, file_path, load_as_fp16=None):
    """Append an operator that loads the variable `out` from a file that the operator `save` wrote.

    Args:
        out (Variable): to be loaded.
        file_path (str): the file.
        load_as_fp16 (bool, optional): convert float32 to float16.
    """
    attrs = {"file_path": file_path, "load_as_fp16": load_as_fp16}
    LayerHelper("load").append_op(type="load", inputs={}, outputs={"Out": out}, attrs=attrs)
