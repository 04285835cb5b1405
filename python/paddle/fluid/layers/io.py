"""fluid.layers.io: data, load and py_reader; ListenAndServ, Send and Recv are outside of `__all__`, as in 2.0.2."""

from __future__ import annotations

from paddle._basics.dtypes import VarType
from paddle._basics.mode import static_only
from paddle._basics.names import OP_ROLE, OpRole
from paddle._programs.while_block import BlockGuard
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
    """A Variable that ``Executor.run`` feeds; its shape is not checked.

    Args:
        name (str): the key in the feed.
        shape (list|tuple): -1 or None for sizes that vary.
        append_batch_size (bool): prepend a batch dimension to `shape`, unless it has an unknown size.
        dtype (str): its element type.
        lod_level (int): levels of sequence nesting.

    Returns:
        Variable.
    """
    if isinstance(shape, (list, tuple)) and append_batch_size and all(n is not None and n >= 0 for n in shape):
        shape = [-1, *shape]
    return data_variable(name, shape, dtype, lod_level, False, type, stop_gradient)


def load(out, file_path, load_as_fp16=None):
    """Appends an operator that loads the variable `out` from a file of the operator `save`.

    Args:
        out (Variable): receives the value.
        file_path (str): the file.
        load_as_fp16 (bool, optional): convert float32 to float16.
    """
    attrs = {"file_path": file_path, "load_as_fp16": load_as_fp16}
    LayerHelper("load").append_op(type="load", inputs={}, outputs={"Out": out}, attrs=attrs)


_SYNC = 0


class BlockGuardServ(BlockGuard):
    """``with server.do():`` the block that a server runs; its operator is appended at the end."""

    def __init__(self, server: ListenAndServ) -> None:
        if not isinstance(server, ListenAndServ):
            raise TypeError(f"BlockGuardServ takes a ListenAndServ, got {type(server).__name__}")
        super().__init__(server.helper.main_program)
        self.server = server

    def __exit__(self, exc_type, exc_val, exc_tb) -> bool:
        if exc_type is None:
            self.server.complete_op()
        return super().__exit__(exc_type, exc_val, exc_tb)


class ListenAndServ:
    """A server in the current Program: it runs a block after each of `fan_in` trainers has ended a step.

    If the port of `endpoint` is 0, a free one is chosen, and written to ``/tmp/paddle.<process id>.port`` when the
    server listens.
    Source: python/paddle/fluid/layers/io.py of 2.0.2 (not among its public names)

    Args:
        endpoint (str): ``ip:port``.
        inputs (list): names of variables that trainers send.
        fan_in (int): number of trainers.
        optimizer_mode (bool): whether `get_params_and_grads` searches optimizer operators.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> from paddle.fluid.layers.io import ListenAndServ
        >>> paddle.enable_static()
        >>> main = fluid.Program()
        >>> with fluid.program_guard(main):
        ...     x = fluid.layers.data("X", [2], append_batch_size=False)
        ...     server = ListenAndServ("127.0.0.1:6170", ["X"], optimizer_mode=False)
        ...     with server.do():
        ...         y = fluid.layers.scale(x, 10.0)
        >>> [op.type for op in main.global_block().ops], main.block(1).ops[0].type
        (['listen_and_serv'], 'scale')
    """

    def __init__(self, endpoint, inputs, fan_in=1, optimizer_mode=True):
        self.helper = LayerHelper("listen_and_serv")
        self.inputs, self.outputs = inputs, []
        self.endpoint, self.fan_in, self.optimizer_mode = endpoint, fan_in, optimizer_mode

    def do(self):
        """The context of the server's block."""
        return BlockGuardServ(self)

    def parent_block(self):
        """The block that contains the server's operator."""
        program = self.helper.main_program
        return program.block(program.current_block().parent_idx)

    def get_params_and_grads(self):
        """Within :meth:`do`: names of parameters and gradients; without `optimizer_mode` all inputs, twice."""
        params, grads = [], []
        for op in self.helper.main_program.current_block().ops:
            if not self.optimizer_mode:
                params += [self.parent_block().var(name) for name in op.input_arg_names]
            elif "Param" in op.input_names and "Grad" in op.input_names:
                params += op.input("Param")
                grads += op.input("Grad")
        return params, grads if self.optimizer_mode else list(params)

    def complete_op(self):
        """Appends the server's operator; `do` calls it at its end."""
        block = self.helper.main_program.current_block()
        attrs = {
            "endpoint": self.endpoint,
            "Fanin": self.fan_in,
            "optimize_blocks": [block],
            "distributed_mode": _SYNC,
            "grad_to_block_id": [],
        }
        self.parent_block().append_op(type="listen_and_serv", inputs={"X": self.inputs}, outputs={}, attrs=attrs)


def _endpoints(what, endpoints, variables, dummy):
    """The endpoint of each variable, the distinct endpoints, and the dummies as a list."""
    if not isinstance(variables, list):
        raise TypeError(f"{what} takes a list of variables, got {type(variables).__name__}")
    places = endpoints.split(",")
    if len(places) != len(variables):
        raise ValueError(f"{what}: an endpoint is needed for each of {len(variables)} variables, got {endpoints!r}")
    return places, list(dict.fromkeys(places)), [] if dummy is None else dummy if isinstance(dummy, list) else [dummy]


def Send(endpoints, send_vars, dummy_output=None, sync=True):  # noqa: N802
    """Sends variables to servers; with `sync` waits until the servers have run their blocks.

    Args:
        endpoints (str): one ``ip:port`` per variable, comma-separated.
        send_vars (list of Variable): the variables.
        dummy_output (Variable or list, optional): orders the operator before its readers.
        sync (bool): end the step.

    Raises:
        TypeError: if the variables are not a list.
        ValueError: if the numbers of endpoints and variables differ.
    """
    places, distinct, dummy = _endpoints("Send", endpoints, send_vars, dummy_output)
    helper = LayerHelper("Send")
    attrs = {"endpoints": distinct, "epmap": places, OP_ROLE: int(OpRole.RPC)}
    helper.append_op(type="send", inputs={"X": send_vars}, outputs={"Out": dummy}, attrs=attrs)
    if sync:
        attrs = {"endpoints": distinct}
        helper.append_op(type="send_barrier", inputs={"X": dummy}, outputs={"Out": []}, attrs=attrs)


def Recv(endpoints, get_vars, dummy_input=None, sync=True):  # noqa: N802
    """Receives variables from servers, which have them under the same names.

    Args:
        endpoints (str): one ``ip:port`` per variable, comma-separated.
        get_vars (list of Variable): receive the values.
        dummy_input (Variable or list, optional): orders the operator after its writers.
        sync (bool): begin the next step.

    Returns:
        list: `get_vars`.

    Raises:
        TypeError: if the variables are not a list.
        ValueError: if the numbers of endpoints and variables differ.
    """
    places, distinct, dummy = _endpoints("Recv", endpoints, get_vars, dummy_input)
    helper = LayerHelper("Recv")
    attrs = {"endpoints": distinct, "epmap": places}
    helper.append_op(type="recv", inputs={"X": dummy}, outputs={"Out": get_vars}, attrs=attrs)
    if sync:
        helper.append_op(type="fetch_barrier", inputs={}, outputs={"Out": get_vars}, attrs={"endpoints": distinct})
    return get_vars
