"""Cells of recurrent networks, and decoders with their helpers, fluid.layers.rnn."""

from __future__ import annotations

import collections

from paddle import _ops
from paddle._basics.checks import check_dtype, check_type
from paddle._basics.dtypes import VarType
from paddle._basics.element_types import FLOATS, NUMERIC
from paddle._basics.structure import flatten, map_structure
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.decode import BeamSearchDecoder, Decoder, cast, dynamic_decode
from paddle.nn.functional import gather_tree
from paddle.nn.layer.rnn import RNNCellBase
from paddle.nn.layer.rnn_loop import birnn, rnn

from .units import BasicGRUUnit, BasicLSTMUnit

__all__ = [
    "BasicDecoder",
    "BeamSearchDecoder",
    "DecodeHelper",
    "Decoder",
    "GRUCell",
    "GreedyEmbeddingHelper",
    "LSTMCell",
    "RNNCell",
    "SampleEmbeddingHelper",
    "TrainingHelper",
    "birnn",
    "dynamic_decode",
    "gather_tree",
    "rnn",
]


class RNNCell:
    """Base of cells: a subclass implements the step in `call`."""

    def call(self, inputs, states, **kwargs):
        """(outputs, new states) of a step."""
        raise NotImplementedError("RNNCell must implement the call function.")

    def __call__(self, inputs, states, **kwargs):
        """`call`."""
        return self.call(inputs, states, **kwargs)

    def get_initial_states(self, batch_ref, shape=None, dtype="float32", init_value=0, batch_dim_idx=0):
        """Initial states; see `paddle.nn.RNNCellBase.get_initial_states`."""
        check_variable_and_dtype(flatten(batch_ref)[0], "batch_ref", NUMERIC, "RNNCell")
        check_type(shape, "shape", (list, tuple, type(None), int), "RNNCell")
        check_dtype(dtype, "dtype", FLOATS, "RNNCell")
        return RNNCellBase.get_initial_states(self, batch_ref, shape, dtype, init_value, batch_dim_idx)

    @property
    def state_shape(self):
        """The shape of a state without the batch, or a nested structure of shapes; implemented by subclasses."""
        raise NotImplementedError("Please add implementation for `state_shape` in the used cell.")

    @property
    def state_dtype(self):
        """The element type of a state; implemented by subclasses."""
        raise NotImplementedError("Please add implementation for `state_dtype` in the used cell.")


class GRUCell(RNNCell):
    """A gated recurrent unit; its parameters are created at the first call.

    Args:
        hidden_size (int): width of the state.
        param_attr, bias_attr (ParamAttr): of weights and biases.
        gate_activation, activation (callable): of the gates (default: sigmoid) and the candidate (default: tanh).
        dtype (str): "float32" or "float64".
        name (str): prefix of the parameters' names.
    """

    def __init__(
        self,
        hidden_size,
        param_attr=None,
        bias_attr=None,
        gate_activation=None,
        activation=None,
        dtype="float32",
        name="GRUCell",
    ):
        check_type(hidden_size, "hidden_size", int, "GRUCell")
        check_dtype(dtype, "dtype", FLOATS, "GRUCell")
        self.hidden_size = hidden_size
        self.gru_unit = BasicGRUUnit(name, hidden_size, param_attr, bias_attr, gate_activation, activation, dtype)

    def call(self, inputs, states):
        """(state, state), both [batch, hidden_size]."""
        check_variable_and_dtype(inputs, "inputs", FLOATS, "GRUCell")
        check_variable_and_dtype(states, "states", FLOATS, "GRUCell")
        hidden = self.gru_unit(inputs, states)
        return hidden, hidden

    @property
    def state_shape(self):
        """[hidden_size]"""
        return [self.hidden_size]


class LSTMCell(RNNCell):
    """A long short-term memory; its parameters are created at the first call.

    Args:
        forget_bias (float): bias of the forget gate.

    The others are those of :class:`GRUCell`.
    """

    def __init__(
        self,
        hidden_size,
        param_attr=None,
        bias_attr=None,
        gate_activation=None,
        activation=None,
        forget_bias=1.0,
        dtype="float32",
        name="LSTMCell",
    ):
        check_type(hidden_size, "hidden_size", int, "LSTMCell")
        check_dtype(dtype, "dtype", FLOATS, "LSTMCell")
        self.hidden_size = hidden_size
        self.lstm_unit = BasicLSTMUnit(
            name, hidden_size, param_attr, bias_attr, gate_activation, activation, forget_bias, dtype
        )

    def call(self, inputs, states):
        """(state, [state, cell]), all [batch, hidden_size]."""
        check_variable_and_dtype(inputs, "inputs", FLOATS, "LSTMCell")
        check_type(states, "states", list, "LSTMCell")
        for i, state in enumerate(states):
            check_variable_and_dtype(state, f"state[{i}]", FLOATS, "LSTMCell")
        hidden, cell = self.lstm_unit(inputs, *states)
        return hidden, [hidden, cell]

    @property
    def state_shape(self):
        """[[hidden_size], [hidden_size]]: state and cell."""
        return [[self.hidden_size], [self.hidden_size]]


class DecodeHelper:
    """Interface that :class:`BasicDecoder` calls: initial inputs, sampling, and the next inputs."""

    def initialize(self):
        """(first inputs, finished)"""

    def sample(self, time, outputs, states):
        """The sampled ids of a step."""

    def next_inputs(self, time, outputs, states, sample_ids):
        """(finished, next inputs, next states)"""


class TrainingHelper(DecodeHelper):
    """Teacher forcing: inputs are taken from the data.

    Args:
        inputs (Variable): [batch, steps, ...], or a nested structure of these.
        sequence_length (Variable): int32 or int64 [batch].
        time_major (bool): inputs are [steps, batch, ...].
    """

    def __init__(self, inputs, sequence_length, time_major=False):
        self.inputs = inputs
        self.sequence_length = sequence_length
        self.time_major = time_major

        # One more step, which is read after the last one.
        def longer(x):
            rest = [0, 0] * (len(x.shape) - (1 if time_major else 2))
            return _ops.pad(x, paddings=([0, 1] if time_major else [0, 0, 0, 1]) + rest)

        self.inputs_ = map_structure(longer, self.inputs)

    def initialize(self):
        """The inputs of the first step; empty sequences are finished."""
        zero = _ops.fill_constant(shape=[1], dtype=self.sequence_length.dtype, value=0.0)
        finished = _ops.equal(self.sequence_length, zero)
        return map_structure(lambda x: x[0] if self.time_major else x[:, 0], self.inputs), finished

    def sample(self, time, outputs, states):
        """The ids of the highest scores."""
        return _ops.arg_max(outputs, axis=-1)

    def next_inputs(self, time, outputs, states, sample_ids):
        """The inputs of the step after `time`, independent of the sampled ids."""
        following = cast(time, VarType.INT32) + 1
        self.sequence_length = cast(self.sequence_length, VarType.INT32)
        finished = _ops.less_equal(self.sequence_length, following)
        axis = 0 if self.time_major else 1

        def step(x):
            part = _ops.slice(
                x,
                StartsTensorList=[following],
                EndsTensorList=[following + 1],
                axes=[axis],
                starts=[-1],
                ends=[-1],
                infer_flags=[-1],
            )
            return _ops.squeeze2(part, axes=[axis])

        return finished, map_structure(step, self.inputs_), states


class GreedyEmbeddingHelper(DecodeHelper):
    """Greedy decoding: the best id of each step is the next input.

    Args:
        embedding_fn (callable): ids to inputs.
        start_tokens (Variable): int64 [batch].
        end_token (int): the token that ends a sequence.
    """

    def __init__(self, embedding_fn, start_tokens, end_token):
        self.embedding_fn = embedding_fn
        self.start_tokens = start_tokens
        self.end_token = _ops.fill_constant(shape=[1], dtype=VarType.INT64, value=float(end_token))

    def initialize(self):
        """The inputs of the start tokens; no sequence is finished."""
        finished = _ops.fill_constant_batch_size_like(
            self.start_tokens, shape=[-1], dtype=VarType.BOOL, value=0.0, force_cpu=True
        )
        return self.embedding_fn(self.start_tokens), finished

    def sample(self, time, outputs, states):
        """The ids of the highest scores."""
        return _ops.arg_max(outputs, axis=-1)

    def next_inputs(self, time, outputs, states, sample_ids):
        """The inputs of the sampled ids; sequences that sampled the end token are finished."""
        return _ops.equal(sample_ids, self.end_token), self.embedding_fn(sample_ids), states


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Decoding by sampling: an id drawn from each step's probabilities is the next input.

    Args:
        softmax_temperature (float): divisor of the outputs.
        seed (int): of the random generator; 0 or None: the global one.
    """

    def __init__(self, embedding_fn, start_tokens, end_token, softmax_temperature=None, seed=None):
        super().__init__(embedding_fn, start_tokens, end_token)
        self.softmax_temperature = softmax_temperature and _ops.fill_constant(
            shape=[1], dtype=VarType.FP32, value=float(softmax_temperature)
        )
        self.seed = seed

    def sample(self, time, outputs, states):
        """Ids sampled from softmax(outputs / temperature)."""
        scores = outputs if self.softmax_temperature is None else outputs / self.softmax_temperature
        probs = _ops.softmax(scores)
        probs.stop_gradient = True
        return cast(_ops.sampling_id(probs, seed=self.seed or 0), self.start_tokens.dtype)


class BasicDecoder(Decoder):
    """A decoder of a cell and a helper.

    Args:
        cell (callable): (inputs, states) to (outputs, states).
        helper (DecodeHelper): chooses the inputs.
        output_fn (callable): maps the cell's outputs to scores.
    """

    OutputWrapper = collections.namedtuple("OutputWrapper", ("cell_outputs", "sample_ids"))

    def __init__(self, cell, helper, output_fn=None):
        self.cell = cell
        self.helper = helper
        self.output_fn = output_fn

    def initialize(self, initial_cell_states):
        """(first inputs, the states, finished)"""
        inputs, finished = self.helper.initialize()
        return inputs, initial_cell_states, finished

    def step(self, time, inputs, states, **kwargs):
        """(outputs and ids, next states, next inputs, finished)"""
        outputs, states = self.cell(inputs, states, **kwargs)
        if self.output_fn is not None:
            outputs = self.output_fn(outputs)
        ids = self.helper.sample(time=time, outputs=outputs, states=states)
        ids.stop_gradient = True
        finished, inputs, states = self.helper.next_inputs(time=time, outputs=outputs, states=states, sample_ids=ids)
        return self.OutputWrapper(outputs, ids), states, inputs, finished
