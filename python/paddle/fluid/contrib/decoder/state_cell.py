"""InitState and StateCell: the states of a decoder's step, and their storage in a decoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle.fluid import layers

__all__ = ["InitState", "StateCell"]


class InitState:
    """The initial value of a state.

    Source: paddle.fluid.contrib.InitState of Paddle 2.0.2.

    Args:
        init (Variable): the state; None creates one with the batch size of `init_boot`.
        shape (tuple|list): of the created state. value (float): its elements.
        init_boot (Variable): provides the batch size.
        need_reorder (bool): sort the sequences by length, as DynamicRNN does; needed for batches.
        dtype (str): of the created state.

    Raises:
        ValueError: if neither `init` nor `init_boot` is given.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> words = fluid.data("words", [None, 1], "int64")
        >>> fluid.contrib.InitState(shape=[-1, 8], init_boot=words).value.shape
        (-1, 8)
    """

    def __init__(
        self,
        init: Any = None,
        shape: Any = None,
        value: float = 0.0,
        init_boot: Any = None,
        need_reorder: bool = False,
        dtype: Any = "float32",
    ) -> None:
        if init is None and init_boot is None:
            raise ValueError("InitState needs init, or init_boot for the size of its batch")
        if init is None:
            init = layers.fill_constant_batch_size_like(input=init_boot, value=value, shape=shape, dtype=dtype)
        self._init = init
        self._need_reorder = need_reorder

    @property
    def value(self) -> Any:
        """The Variable."""
        return self._init

    @property
    def need_reorder(self) -> bool:
        """Whether sequences are sorted by length, as in DynamicRNN."""
        return self._need_reorder


class _Memory:
    """A state in a TrainingDecoder: a memory of its DynamicRNN."""

    def __init__(self, rnn: Any, init: InitState) -> None:
        self._rnn = rnn
        self._memory = rnn.memory(init=init.value, need_reorder=init.need_reorder)

    def get_state(self) -> Any:
        return self._memory

    def update_state(self, state: Any) -> None:
        self._rnn.update_memory(self._memory, state)


class _Array:
    """A state in a BeamSearchDecoder: an array of the state of each step, created before the loop."""

    def __init__(self, block: Any, init: InitState) -> None:
        self._array = block.create_var(
            name=unique_name.generate("array_state_array"), type=VarType.LOD_TENSOR_ARRAY, dtype=init.value.dtype
        )
        self._counter = block.create_var(name=unique_name.generate("array_state_counter"), dtype="int64")
        self._counter.stop_gradient = True
        attrs = {"shape": [1], "dtype": self._counter.dtype, "value": 0.0, "force_cpu": True}
        block.append_op(type="fill_constant", inputs={}, outputs={"Out": [self._counter]}, attrs=attrs)
        inputs = {"X": init.value, "I": self._counter}
        block.append_op(type="write_to_array", inputs=inputs, outputs={"Out": self._array})

    def get_state(self) -> Any:
        return layers.array_read(array=self._array, i=self._counter)

    def update_state(self, state: Any) -> None:
        layers.increment(x=self._counter, value=1, in_place=True)
        layers.array_write(state, array=self._array, i=self._counter)


class StateCell:
    """The named inputs and states of a recurrent step, and the function that computes the new states.

    Source: paddle.fluid.contrib.StateCell of Paddle 2.0.2.

    A cell belongs to one decoder; its methods are called within the decoder's block.

    Args:
        inputs (dict): name of an input -> Variable, or None for one that is passed to `compute_state` in every step.
        states (dict): name of a state -> InitState.
        out_state (str): the state from which a beam search computes scores.
        name (str): ignored.

    Raises:
        ValueError: for a state that is not an InitState, an `out_state` that is not a state, or an unknown
        name.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> h = fluid.contrib.InitState(fluid.data("h", [None, 8]), need_reorder=True)
        >>> cell = fluid.contrib.StateCell(inputs={"x": None}, states={"h": h}, out_state="h")
        >>> @cell.state_updater
        ... def updater(cell):
        ...     both = [cell.get_input("x"), cell.get_state("h")]
        ...     cell.set_state("h", fluid.layers.fc(both, 8, act="tanh"))
        >>> words = fluid.layers.data("words", [4], lod_level=1)
        >>> decoder = fluid.contrib.TrainingDecoder(cell)
        >>> with decoder.block():
        ...     decoder.state_cell.compute_state(inputs={"x": decoder.step_input(words)})
        ...     decoder.state_cell.update_states()
        ...     decoder.output(decoder.state_cell.out_state())
        >>> decoder().shape
        (-1, 8)
    """

    def __init__(
        self, inputs: dict[str, Any], states: dict[str, InitState], out_state: str, name: str | None = None
    ) -> None:
        for key, state in states.items():
            if not isinstance(state, InitState):
                raise ValueError(f"StateCell: the state {key!r} must be an InitState, got {type(state)}")
        if out_state not in states:
            raise ValueError(f"StateCell: out_state is {out_state!r}, the states are {list(states)}")
        self._cur_states: dict[str, Any] = dict(states)
        self._state_names = list(states)
        self._inputs = dict(inputs)
        self._out_state = out_state
        self._state_updater: Callable[[StateCell], Any] | None = None
        self._decoder: Any = None
        #: the storage of each state, created at its first use in the decoder
        self._kept: dict[str, _Memory | _Array] = {}

    def _enter_decoder(self, decoder: Any) -> None:
        if self._decoder is not None or self._kept:
            raise ValueError("StateCell: this one has entered a decoder already")
        self._decoder = decoder

    def _leave_decoder(self, decoder: Any) -> None:
        if self._decoder is not decoder:
            raise ValueError("StateCell: this decoder is not the one that it is in")
        self._decoder = None

    def _prepare(self) -> None:
        """Creates the storage of the states at the first use in a decoder."""
        if self._decoder is None or self._kept:
            return
        for name in self._state_names:
            self._kept[name] = self._decoder._keep(self._cur_states[name])
            self._cur_states[name] = self._kept[name].get_state()

    def get_state(self, state_name: str) -> Any:
        """The current value of a state."""
        self._prepare()
        if state_name not in self._cur_states:
            raise ValueError(f"StateCell: there is no state {state_name!r}, only {list(self._cur_states)}")
        return self._cur_states[state_name]

    def get_input(self, input_name: str) -> Any:
        """An input of this step."""
        if self._inputs.get(input_name) is None:
            raise ValueError(f"StateCell: the input {input_name!r} has no value; the inputs are {list(self._inputs)}")
        return self._inputs[input_name]

    def set_state(self, state_name: str, state_value: Any) -> None:
        """Sets the new value of a state."""
        self._cur_states[state_name] = state_value

    def state_updater(self, updater: Callable[[StateCell], Any]) -> Callable[[StateCell], Any]:
        """Decorates the function that computes the new states: it receives the cell, and calls `get_input`, `get_state`
        and `set_state`."""
        self._state_updater = updater
        return updater

    def compute_state(self, inputs: dict[str, Any]) -> None:
        """Sets the inputs of a step by name, and computes the new states."""
        self._prepare()
        if self._state_updater is None:
            raise ValueError("StateCell: compute_state needs a function registered with state_updater")
        for name, value in inputs.items():
            if name not in self._inputs:
                raise ValueError(f"StateCell: there is no input {name!r}, only {list(self._inputs)}")
            self._inputs[name] = value
        self._state_updater(self)

    def update_states(self) -> None:
        """Stores the states for the next step."""
        self._prepare()
        for name, kept in self._kept.items():
            kept.update_state(self._cur_states[name])

    def out_state(self) -> Any:
        """The state from which a beam search computes scores."""
        return self._cur_states[self._out_state]
