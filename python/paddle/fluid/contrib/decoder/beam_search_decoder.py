"""TrainingDecoder and BeamSearchDecoder: one step function, over given sequences or in a beam search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._programs.guards import default_main_program
from paddle._programs.variable import Variable
from paddle.fluid import layers as _layers

from .state_cell import InitState, StateCell, _Array, _Memory

__all__ = ["InitState", "StateCell", "TrainingDecoder", "BeamSearchDecoder"]

#: Typed as Any: layers that are generated from the table of operators are invisible to type checkers.
layers: Any = _layers


class _Decoder:
    """The state cell and the block of a decoder; the block can be entered once."""

    def __init__(self, state_cell: StateCell) -> None:
        self._status = 0
        self._state_cell = state_cell
        state_cell._enter_decoder(self)

    def _enter(self) -> None:
        if self._status != 0:
            raise ValueError(f"{type(self).__name__}: block() can be used only once")
        self._status = 1

    def _leave(self) -> None:
        self._status = 2
        self._state_cell._leave_decoder(self)

    def _inside(self, method: str) -> None:
        if self._status != 1:
            raise ValueError(f"{type(self).__name__}: {method} must be used inside of block()")

    def _outside(self) -> None:
        if self._status != 2:
            raise ValueError(f"{type(self).__name__}: the output is available after block() only")

    @property
    def state_cell(self) -> StateCell:
        """The cell; within the block only."""
        self._inside("state_cell")
        return self._state_cell


class TrainingDecoder(_Decoder):
    """A decoder over given sequences (teacher forcing).

    Source: paddle.fluid.contrib.TrainingDecoder of Paddle 2.0.2.

    Args:
        state_cell (StateCell): its inputs and states. name (str): ignored.

    Raises:
        ValueError: for methods called outside of the block, or a result read before it.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> h = fluid.contrib.InitState(fluid.data("h", [None, 4]), need_reorder=True)
        >>> cell = fluid.contrib.StateCell({"x": None}, {"h": h}, "h")
        >>> adds = cell.state_updater(lambda c: c.set_state("h", c.get_state("h") + c.get_input("x")))
        >>> words = fluid.layers.data("words", [4], lod_level=1)
        >>> decoder = fluid.contrib.TrainingDecoder(cell)
        >>> with decoder.block():
        ...     decoder.state_cell.compute_state({"x": decoder.step_input(words)})
        ...     decoder.state_cell.update_states()
        ...     decoder.output(decoder.state_cell.get_state("h"))
        >>> decoder().lod_level
        1
    """

    BEFORE_DECODER = 0
    IN_DECODER = 1
    AFTER_DECODER = 2

    def __init__(self, state_cell: StateCell, name: str | None = None) -> None:
        self._dynamic_rnn = layers.DynamicRNN()
        super().__init__(state_cell)

    @contextmanager
    def block(self) -> Iterator[None]:
        """The context in which the step is defined."""
        self._enter()
        with self._dynamic_rnn.block():
            yield
        self._leave()

    def _keep(self, init: InitState) -> _Memory:
        return _Memory(self._dynamic_rnn, init)

    @property
    def dynamic_rnn(self) -> Any:
        """The underlying DynamicRNN."""
        return self._dynamic_rnn

    @property
    def type(self) -> int:
        """1."""
        return 1

    def step_input(self, x: Any) -> Any:
        """The rows of `x` for the current step."""
        self._inside("step_input")
        return self._dynamic_rnn.step_input(x)

    def static_input(self, x: Any) -> Any:
        """`x` itself in every step."""
        self._inside("static_input")
        return self._dynamic_rnn.static_input(x)

    def output(self, *outputs: Any) -> None:
        """Declares outputs of the step."""
        self._inside("output")
        self._dynamic_rnn.output(*outputs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of all steps as sequences."""
        self._outside()
        return self._dynamic_rnn(*args, **kwargs)


class BeamSearchDecoder(_Decoder):
    """A beam search decoder.

    Source: paddle.fluid.contrib.BeamSearchDecoder of Paddle 2.0.2.

    `decode` defines the step: an embedding of the previous tokens, the states of the cell, a fully connected layer with
    softmax over the vocabulary, and `layers.beam_search`. Use `block` to define another one.

    Args:
        state_cell (StateCell): its inputs and states.
        init_ids, init_scores (Variable): the initial tokens and their scores, [batch, 1] with a LoD of two
            levels.
        target_dict_dim (int): size of the vocabulary. word_dim (int): width of the embedding.
        input_var_dict (dict): name of an input of the cell -> Variable; the other inputs receive the embedding.
        topk_size (int): candidates per step. sparse_emb (bool): the embedding's gradient is sparse.
        max_len (int): maximum length of a sequence. beam_size (int): number of sequences that are kept.
        end_id (int): the token that ends a sequence. name (str): ignored.

    Raises:
        ValueError: for methods called outside of the block, or a result read before it.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> h = fluid.contrib.InitState(fluid.data("h", [None, 4]))
        >>> cell = fluid.contrib.StateCell({"x": None}, {"h": h}, "h")
        >>> adds = cell.state_updater(lambda c: c.set_state("h", c.get_state("h") + c.get_input("x")))
        >>> ids = fluid.data("ids", [None, 1], "int64", lod_level=2)
        >>> scores = fluid.data("scores", [None, 1], "float32", lod_level=2)
        >>> decoder = fluid.contrib.BeamSearchDecoder(cell, ids, scores, 10, 4, topk_size=5, max_len=6, beam_size=2)
        >>> decoder.decode()
        >>> words, their_scores = decoder()
    """

    BEFORE_BEAM_SEARCH_DECODER = 0
    IN_BEAM_SEARCH_DECODER = 1
    AFTER_BEAM_SEARCH_DECODER = 2

    def __init__(
        self,
        state_cell: StateCell,
        init_ids: Any,
        init_scores: Any,
        target_dict_dim: int,
        word_dim: int,
        input_var_dict: dict[str, Any] = {},  # noqa: B006 (Paddle's signature; only read)
        topk_size: int = 50,
        sparse_emb: bool = True,
        max_len: int = 100,
        beam_size: int = 1,
        end_id: int = 1,
        name: str | None = None,
    ) -> None:
        self._counter = layers.zeros(shape=[1], dtype="int64")
        self._counter.stop_gradient = True
        self._max_len = layers.fill_constant(shape=[1], dtype="int64", value=max_len)
        self._cond = layers.less_than(x=self._counter, y=self._max_len)
        self._while_op = layers.While(self._cond)
        self._zero_idx = layers.fill_constant(shape=[1], value=0, dtype="int64", force_cpu=True)
        #: name of a value that was read -> its array, and the value to append after a step
        self._array_dict: dict[str, Any] = {}
        self._array_link: list[tuple[Any, Any]] = []
        self._ids_array: Any = None
        self._scores_array: Any = None
        self._beam_size = beam_size
        self._end_id = end_id
        self._init_ids = init_ids
        self._init_scores = init_scores
        self._target_dict_dim = target_dict_dim
        self._topk_size = topk_size
        self._sparse_emb = sparse_emb
        self._word_dim = word_dim
        self._input_var_dict = input_var_dict
        super().__init__(state_cell)

    @contextmanager
    def block(self) -> Iterator[None]:
        """The context in which the step is defined; after it the arrays receive the values of `update_array`."""
        self._enter()
        with self._while_op.block():
            yield
            with layers.Switch() as switch, switch.case(self._cond):
                layers.increment(x=self._counter, value=1.0, in_place=True)
                for value, array in self._array_link:
                    layers.array_write(x=value, i=self._counter, array=array)
                layers.less_than(x=self._counter, y=self._max_len, cond=self._cond)
        self._leave()

    def _keep(self, init: InitState) -> _Array:
        return _Array(self._parent_block(), init)

    @property
    def type(self) -> int:
        """2."""
        return 2

    def early_stop(self) -> None:
        """Stops the search after this step."""
        layers.fill_constant(shape=[1], value=0, dtype="bool", force_cpu=True, out=self._cond)

    def decode(self) -> None:
        """Defines the step of a standard beam search."""
        with self.block():
            cell = self.state_cell
            ids = self.read_array(init=self._init_ids, is_ids=True)
            scores = self.read_array(init=self._init_scores, is_scores=True)
            size = [self._target_dict_dim, self._word_dim]
            embedding = layers.embedding(input=ids, size=size, dtype="float32", is_sparse=self._sparse_emb)
            feed, update = {}, {}
            for name, init in self._input_var_dict.items():
                if name not in cell._inputs:
                    raise ValueError(f"BeamSearchDecoder: {name!r} of input_var_dict is not an input of the StateCell")
                update[name] = self.read_array(init=init)
                feed[name] = layers.sequence_expand(update[name], scores)
            for name in cell._state_names:
                cell.set_state(name, layers.sequence_expand(cell.get_state(name), scores))
            for name in cell._inputs:
                feed.setdefault(name, embedding)
            cell.compute_state(inputs=feed)
            state = layers.lod_reset(x=cell.out_state(), y=scores)
            of_words = layers.fc(input=state, size=self._target_dict_dim, act="softmax")
            best, indices = layers.topk(of_words, k=self._topk_size)
            total = layers.elementwise_add(x=layers.log(best), y=layers.reshape(scores, shape=[-1]), axis=0)
            new_ids, new_scores = layers.beam_search(
                ids, scores, indices, total, self._beam_size, end_id=self._end_id, level=0
            )
            with layers.Switch() as switch:
                with switch.case(layers.is_empty(new_ids)):
                    self.early_stop()
                with switch.default():
                    cell.update_states()
                    self.update_array(ids, new_ids)
                    self.update_array(scores, new_scores)
                    for name, var in update.items():
                        self.update_array(var, feed[name])

    def read_array(self, init: Any, is_ids: bool = False, is_scores: bool = False) -> Any:
        """The value that the previous step passed to `update_array`; `init` in the first step.

        Args:
            is_ids, is_scores (bool): marks the array of the tokens, or of their scores, as a result.

        Raises:
            ValueError: if both are True. TypeError: if `init` is not a Variable.
        """
        self._inside("read_array")
        if is_ids and is_scores:
            raise ValueError("BeamSearchDecoder: read_array takes is_ids or is_scores, not both")
        if not isinstance(init, Variable):
            raise TypeError(f"BeamSearchDecoder: read_array needs a Variable, got {type(init)}")
        block = self._parent_block()
        name = unique_name.generate("beam_search_decoder_array")
        array = block.create_var(name=name, type=VarType.LOD_TENSOR_ARRAY, dtype=init.dtype)
        block.append_op(type="write_to_array", inputs={"X": init, "I": self._zero_idx}, outputs={"Out": array})
        if is_ids:
            self._ids_array = array
        elif is_scores:
            self._scores_array = array
        value = layers.array_read(array=array, i=self._counter)
        self._array_dict[value.name] = array
        return value

    def update_array(self, array: Any, value: Any) -> None:
        """Sets the value of an array for the next step.

        Args:
            array (Variable): a value returned by `read_array`. value (Variable): its value in the next step.
        """
        self._inside("update_array")
        for what, var in (("array", array), ("value", value)):
            if not isinstance(var, Variable):
                raise TypeError(f"BeamSearchDecoder: update_array needs a Variable as {what}, got {type(var)}")
        if array.name not in self._array_dict:
            raise ValueError(f"BeamSearchDecoder: update_array: {array.name} was not returned by read_array")
        self._array_link.append((value, self._array_dict[array.name]))

    def __call__(self) -> tuple[Any, Any]:
        """(tokens, scores) of the sequences found, with a LoD of two levels."""
        self._outside()
        return layers.beam_search_decode(
            ids=self._ids_array, scores=self._scores_array, beam_size=self._beam_size, end_id=self._end_id
        )

    def _parent_block(self) -> Any:
        """The block that contains the loop."""
        program = default_main_program()
        return program.block(program.current_block().parent_idx)
