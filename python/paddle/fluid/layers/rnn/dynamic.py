"""LSTM and GRU over LoD sequences, single steps, and the CUDNN-style LSTM of fluid.layers.rnn."""

from __future__ import annotations

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import check_type
from paddle._basics.element_types import FLOATS, takes
from paddle._basics.mode import in_static_mode
from paddle._dispatch.append import named
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.layer_helper import LayerHelper
from paddle.nn.param_attr import ParamAttr
from paddle.static.nn.common import fc_layer

__all__ = ["dynamic_gru", "dynamic_lstm", "dynamic_lstmp", "gru_unit", "lstm", "lstm_unit"]

_UNITS = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}


def _check(where: str, input, *states) -> None:  # noqa: A002
    assert in_static_mode(), f"{where} is for Programs only; use paddle.nn.LSTM or GRU"
    check_variable_and_dtype(input, "input", FLOATS, where)
    for state in states:
        check_type(state, "h_0, c_0", (Variable, type(None)), where)
        if state is not None:
            check_variable_and_dtype(state, "h_0, c_0", FLOATS, where)


def _check_state(state, rows: int, width: int) -> None:
    if state is not None:
        shape = (rows, width)
        assert tuple(state.shape) == shape, f"The shape of the first state should be {shape}, got {tuple(state.shape)}"


def dynamic_lstm(  # noqa: D417
    input,  # noqa: A002
    size,
    h_0=None,
    c_0=None,
    param_attr=None,
    bias_attr=None,
    use_peepholes=True,
    is_reverse=False,
    gate_activation="sigmoid",
    cell_activation="tanh",
    candidate_activation="tanh",
    dtype="float32",
    name=None,
):
    """An LSTM over sequences with a LoD; the input is already multiplied by the input weights.

    Args:
        input (Variable): float32 or float64 [rows, 4 * width] with a LoD.
        size (int): 4 * width.
        h_0, c_0 (Variable): initial states [sequences, width]; default zeros.
        param_attr (ParamAttr): of the weight [width, 4 * width]; columns: candidate, input, forget and output gate.
        bias_attr (ParamAttr): of the bias [1, 4 * width], with peepholes [1, 7 * width].
        use_peepholes (bool): connect the cell to the input, forget and output gate.
        is_reverse (bool): run from the last step of each sequence.
        gate_activation, cell_activation, candidate_activation (str): "sigmoid", "tanh", "relu" or "identity".
        dtype (str): of the parameters.

    Returns:
        (hidden states, cells), both [rows, width] with the LoD of the input.
    """
    assert bias_attr is not False, "bias_attr should not be False in dynamic_lstm."
    _check("dynamic_lstm", input, h_0, c_0)
    helper = LayerHelper("lstm", **locals())
    width = size // 4
    weight = helper.create_parameter(attr=helper.param_attr, shape=[width, 4 * width], dtype=dtype)
    shape = [1, (7 if use_peepholes else 4) * width]
    bias = helper.create_parameter(attr=helper.bias_attr, shape=shape, dtype=dtype, is_bias=True)
    for state in (h_0, c_0):
        _check_state(state, input.shape[0], width)
    hidden, cell, _, _ = named(
        helper.name,
        _ops.lstm,
        input,
        h_0,
        c_0,
        weight,
        bias,
        use_peepholes=use_peepholes,
        is_reverse=is_reverse,
        gate_activation=gate_activation,
        cell_activation=cell_activation,
        candidate_activation=candidate_activation,
    )
    return hidden, cell


def dynamic_lstmp(  # noqa: D417
    input,  # noqa: A002
    size,
    proj_size,
    param_attr=None,
    bias_attr=None,
    use_peepholes=True,
    is_reverse=False,
    gate_activation="sigmoid",
    cell_activation="tanh",
    candidate_activation="tanh",
    proj_activation="tanh",
    dtype="float32",
    name=None,
    h_0=None,
    c_0=None,
    cell_clip=None,
    proj_clip=None,
):
    """As :func:`dynamic_lstm`, with a projection of the hidden state before the next step.

    Args:
        proj_size (int): width of the projection.
        proj_activation (str): "identity": none; any other value applies `cell_activation`, as in Paddle.
        h_0 (Variable): initial projections [sequences, proj_size]; `c_0` [sequences, width]; default zeros.
        cell_clip, proj_clip (float): bounds of the magnitudes of cells and projections.

    Returns:
        (projections [rows, proj_size], cells [rows, width]), with the LoD of the input.
    """
    assert bias_attr is not False, "bias_attr should not be False in dynamic_lstmp."
    _check("dynamic_lstmp", input, h_0, c_0)
    helper = LayerHelper("lstmp", **locals())
    width = size // 4
    weight = helper.create_parameter(attr=helper.param_attr, shape=[proj_size, 4 * width], dtype=dtype)
    projection = helper.create_parameter(attr=helper.param_attr, shape=[width, proj_size], dtype=dtype)
    shape = [1, (7 if use_peepholes else 4) * width]
    bias = helper.create_parameter(attr=helper.bias_attr, shape=shape, dtype=dtype, is_bias=True)
    _check_state(h_0, input.shape[0], proj_size)
    _check_state(c_0, input.shape[0], width)
    for clip, what in ((cell_clip, "cell_clip"), (proj_clip, "proj_clip")):
        assert not clip or clip >= 0, f"{what} should not be negative."
    out, cell, *_ = named(
        helper.name,
        _ops.lstmp,
        input,
        h_0,
        c_0,
        weight,
        projection,
        bias,
        use_peepholes=use_peepholes,
        is_reverse=is_reverse,
        cell_clip=cell_clip or 0.0,
        proj_clip=proj_clip or 0.0,
        gate_activation=gate_activation,
        cell_activation=cell_activation,
        candidate_activation=candidate_activation,
        proj_activation=proj_activation,
    )
    return out, cell


def dynamic_gru(  # noqa: D417
    input,  # noqa: A002
    size,
    param_attr=None,
    bias_attr=None,
    is_reverse=False,
    gate_activation="sigmoid",
    candidate_activation="tanh",
    h_0=None,
    origin_mode=False,
):
    """A GRU over sequences with a LoD; the input is already multiplied by the input weights.

    Args:
        input (Variable): float32 or float64 [rows, 3 * size] with a LoD.
        size (int): width of the states.
        param_attr (ParamAttr): of the weight [size, 3 * size]: update gate, reset gate, candidate.
        bias_attr (ParamAttr): of the bias [1, 3 * size].
        is_reverse (bool): run from the last step of each sequence.
        gate_activation, candidate_activation (str): "sigmoid", "tanh", "relu" or "identity".
        h_0 (Variable): initial states [sequences, size]; default zeros.
        origin_mode (bool): h = u * previous + (1 - u) * c instead of h = (1 - u) * previous + u * c.

    Returns:
        Variable: hidden states [rows, size] with the LoD of the input.
    """
    _check("dynamic_gru", input, h_0)
    helper = LayerHelper("gru", **locals())
    dtype = helper.input_dtype()
    weight = helper.create_parameter(attr=helper.param_attr, shape=[size, 3 * size], dtype=dtype)
    bias = helper.create_parameter(attr=helper.bias_attr, shape=[1, 3 * size], dtype=dtype, is_bias=True)
    _check_state(h_0, input.shape[0], size)
    return named(
        helper.name,
        _ops.gru,
        input,
        h_0,
        weight,
        bias,
        is_reverse=is_reverse,
        gate_activation=gate_activation,
        activation=candidate_activation,
        origin_mode=origin_mode,
    )[3]


def gru_unit(  # noqa: D417
    input,  # noqa: A002
    hidden,
    size,
    param_attr=None,
    bias_attr=None,
    activation="tanh",
    gate_activation="sigmoid",
    origin_mode=False,
):
    """One step of a GRU; the input is already multiplied by the input weights.

    Args:
        input (Variable): float32 or float64 [batch, 3 * width].
        hidden (Variable): the previous states, [batch, width].
        size (int): 3 * width.
        param_attr, bias_attr (ParamAttr): of the weight [width, 3 * width] and the bias [1, 3 * width] (False: none).
        activation, gate_activation (str): "sigmoid", "tanh", "relu" or "identity".
        origin_mode (bool): as of :func:`dynamic_gru`.

    Returns:
        (states, reset previous states, gates).
    """
    check_variable_and_dtype(input, "input", takes("gru_unit"), "gru_unit")
    check_variable_and_dtype(hidden, "hidden", FLOATS, "gru_unit")
    check_type(size, "size", int, "gru_unit")
    acts = {"activation": _UNITS[activation], "gate_activation": _UNITS[gate_activation]}
    helper = LayerHelper("gru_unit", **locals())
    dtype, width = helper.input_dtype(), size // 3
    weight = helper.create_parameter(attr=helper.param_attr, shape=[width, 3 * width], dtype=dtype)
    bias = None
    if helper.bias_attr:
        bias = helper.create_parameter(attr=helper.bias_attr, shape=[1, 3 * width], dtype=dtype, is_bias=True)
    gate, reset, updated = named(
        helper.name, _ops.gru_unit, input, hidden, weight, bias, origin_mode=origin_mode, **acts
    )
    return updated, reset, gate


def lstm_unit(x_t, hidden_t_prev, cell_t_prev, forget_bias=0.0, param_attr=None, bias_attr=None, name=None):
    """One step of an LSTM, including the products of input and state.

    Args:
        x_t (Variable): float32 or float64 [batch, inputs].
        hidden_t_prev, cell_t_prev (Variable): the previous states, [batch, width].
        forget_bias (float): bias of the forget gate.
        param_attr, bias_attr (ParamAttr): of the weight [inputs + width, 4 * width] and the bias [4 * width].

    Returns:
        (hidden states, cells).

    Raises:
        ValueError: for another number of dimensions, or incompatible sizes.
    """
    given = {"x_t": x_t, "hidden_t_prev": hidden_t_prev, "cell_t_prev": cell_t_prev}
    for what, value in given.items():
        check_variable_and_dtype(value, what, takes("lstm_unit"), "lstm_unit")
    for what, value in given.items():
        if len(value.shape) != 2:
            raise ValueError(f"Rank of {what} must be 2.")
    if not x_t.shape[0] == hidden_t_prev.shape[0] == cell_t_prev.shape[0]:
        raise ValueError("The 1st dimensions of x_t, hidden_t_prev and cell_t_prev must be the same.")
    if hidden_t_prev.shape[1] != cell_t_prev.shape[1]:
        raise ValueError("The 2nd dimensions of hidden_t_prev and cell_t_prev must be the same.")
    both = _ops.concat([x_t, hidden_t_prev], axis=1)
    width = cell_t_prev.shape[1]
    sums = fc_layer(both, 4 * width, 1, param_attr, ParamAttr() if bias_attr is None else bias_attr)
    cell, hidden = _ops.lstm_unit(sums, cell_t_prev, forget_bias=float(forget_bias))
    return hidden, cell


def lstm(  # noqa: D417
    input,  # noqa: A002
    init_h,
    init_c,
    max_len,
    hidden_size,
    num_layers,
    dropout_prob=0.0,
    is_bidirec=False,
    is_test=False,
    name=None,
    default_initializer=None,
    seed=-1,
):
    """A multi-layer LSTM over sequences of equal length; superseded by paddle.nn.LSTM.

    Args:
        input (Variable): float32 or float64 [steps, batch, inputs].
        init_h, init_c (Variable): initial states and cells [num_layers * directions, batch, hidden_size].
        max_len (int): ignored.
        hidden_size, num_layers (int): width of the states, number of layers.
        dropout_prob (float): dropout probability between layers.
        is_bidirec (bool): a second network runs backwards; the outputs of both are concatenated.
        is_test (bool): disable dropout.
        default_initializer (Initializer): of the single parameter that contains all weights and biases.
        seed (int): of the dropout; not positive: the global generator.

    Returns:
        (outputs [steps, batch, directions * hidden_size], last states, last cells).
    """
    helper = LayerHelper("cudnn_lstm", **locals())
    for value, what in ((input, "input"), (init_h, "init_h"), (init_c, "init_c")):
        check_variable_and_dtype(value, what, takes("lstm"), "lstm")
    for number, what in ((max_len, "max_len"), (hidden_size, "hidden_size"), (num_layers, "num_layers")):
        check_type(number, what, int, "lstm")
    directions = 2 if is_bidirec else 1
    size = 0
    for layer in range(num_layers):
        width = input.shape[-1] if layer == 0 else directions * hidden_size
        size += 4 * hidden_size * directions * (width + hidden_size + 2)
    weight = helper.create_parameter(
        attr=helper.param_attr, shape=[size], dtype=input.dtype, default_initializer=default_initializer
    )
    _, _, out, last_h, last_c = named(
        helper.name,
        _ops.cudnn_lstm,
        input,
        init_h,
        init_c,
        weight,
        is_bidirec=is_bidirec,
        input_size=input.shape[-1],
        hidden_size=hidden_size,
        num_layers=num_layers,
        is_test=is_test,
        dropout_prob=dropout_prob,
        seed=seed,
    )
    return out, last_h, last_c
