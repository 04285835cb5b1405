"""Step-by-step decoding: the Decoder interface, beam search, and dynamic_decode."""

from __future__ import annotations

import collections
import warnings
from collections.abc import Callable
from typing import Any

from paddle import _ops
from paddle._basics import numpy as np
from paddle._basics.default_dtype import get_default_dtype
from paddle._basics.dtypes import VarType, convert_np_dtype_to_dtype_
from paddle._basics.mode import in_static_mode
from paddle._basics.structure import flatten, map_structure
from paddle._dispatch.argument_checks import check_arguments
from paddle._programs.while_block import While
from paddle.nn.functional.decode import gather_tree
from paddle.nn.layer.rnn_loop import array_outside, shaped_like, swap
from paddle.tensor.array import array_read, array_write
from paddle.tensor.creation import assign_array

__all__ = ["BeamSearchDecoder", "dynamic_decode"]

_INT64 = VarType.INT64


def cast(x: Any, dtype: Any) -> Any:
    """`x` converted to the given element type."""
    return x if x.dtype == dtype else _ops.cast(x, in_dtype=x.dtype, out_dtype=dtype)


class Decoder:
    """The interface that :func:`dynamic_decode` drives: initialize, step, and optionally finalize."""

    def initialize(self, inits: Any) -> tuple[Any, Any, Any]:
        """(first inputs, first states, finished); `inits` is the argument of dynamic_decode."""
        raise NotImplementedError

    def step(self, time: Any, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any, Any, Any]:
        """(outputs, next states, next inputs, finished) of the step `time`, an int64 Tensor of shape [1]."""
        raise NotImplementedError

    def finalize(self, outputs: Any, final_states: Any, sequence_lengths: Any) -> tuple[Any, Any]:
        """(outputs, states) of all steps together; optional."""
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """Whether `finished` of a step replaces that of earlier steps instead of being combined with it by `or`."""
        return False


class BeamSearchDecoder(Decoder):
    """Beam search: in each step, of all continuations of the current sequences the `beam_size` best are kept.

    Args:
        cell: called with inputs and states of shape [batch * beams, ...]; returns outputs and states.
        start_token, end_token: the ids of begin and end of a sequence.
        beam_size: number of sequences kept for each batch element.
        embedding_fn: maps ids [batch, beams] to the next inputs (default: the ids themselves).
        output_fn: maps the cell's outputs to scores of all ids (default: the outputs are the scores).

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.0-rc/api/paddle/nn/decode/BeamSearchDecoder_en.html

    Examples:
        >>> import paddle
        >>> embedding, linear = paddle.nn.Embedding(10, 4), paddle.nn.Linear(4, 10)
        >>> cell = paddle.nn.GRUCell(4, 4)
        >>> decoder = paddle.nn.BeamSearchDecoder(cell, 0, 1, 3, embedding, linear)
        >>> first = cell.get_initial_states(paddle.ones([2, 4]))
        >>> ids, states = paddle.nn.dynamic_decode(decoder, first, max_step_num=4)
        >>> ids.shape[0], ids.shape[2]
        (2, 3)
    """

    OutputWrapper = collections.namedtuple("OutputWrapper", ("scores", "predicted_ids", "parent_ids"))
    StateWrapper = collections.namedtuple("StateWrapper", ("cell_states", "log_probs", "finished", "lengths"))

    def __init__(
        self,
        cell: Any,
        start_token: int,
        end_token: int,
        beam_size: int,
        embedding_fn: Callable | None = None,
        output_fn: Callable | None = None,
    ) -> None:
        self.cell = cell
        self.embedding_fn = embedding_fn
        self.output_fn = output_fn
        self.start_token = start_token
        self.end_token = end_token
        self.beam_size = beam_size
        self.kinf = 1e9

    @staticmethod
    def tile_beam_merge_with_batch(x: Any, beam_size: int) -> Any:
        """Repeats each batch element `beam_size` times: [batch, ...] to [batch * beam_size, ...], for tensors that the
        cell reads."""
        check_arguments("BeamSearchDecoder.tile_beam_merge_with_batch", x)
        x = _tiled(x, beam_size)
        # The two merged sizes are moved to the end, because other sizes may be unknown.
        rank = len(x.shape)
        x = _ops.transpose2(x, axis=[*range(2, rank), 0, 1])
        x = _ops.reshape2(x, shape=[0] * (rank - 2) + [-1])
        return _ops.transpose2(x, axis=[rank - 2, *range(rank - 2)])

    def _split_batch_beams(self, x: Any) -> Any:
        return _ops.reshape2(x, shape=[-1, self.beam_size, *x.shape[1:]])

    def _merge_batch_beams(self, x: Any) -> Any:
        return _ops.reshape2(x, shape=[-1, *x.shape[2:]])

    def _expand_to_beam_size(self, x: Any) -> Any:
        """[batch, ...] to [batch, beams, ...]"""
        return _tiled(x, self.beam_size)

    def _mask_probs(self, probs: Any, finished: Any) -> Any:
        """Log probabilities [batch, beams, ids] where a finished sequence continues only with end_token, at no cost.

        The attribute `noend_mask_tensor` is set by :meth:`_beam_search_step`.
        """
        ended = cast(finished, probs.dtype)
        ends = _ops.elementwise_mul(_ops.unsqueeze2(ended, axes=[2]), self.noend_mask_tensor)
        return ends - _ops.elementwise_mul(probs, ended - 1, axis=0)

    def _gather(self, x: Any, indices: Any, batch_size: Any = None) -> Any:
        """[batch, n, ...] and int64 indices [batch, m] below n to [batch, m, ...]: a selection in each batch element.

        `batch_size` is an int64 Tensor of shape [1]; None: the first size of `indices`.
        """
        zero, one = (_ops.fill_constant(shape=[1], dtype=_INT64, value=float(v)) for v in (0, 1))
        count = _first_size(indices) if batch_size is None else batch_size
        first = _ops.unsqueeze2(_ops.range(zero, cast(count, _INT64), one), axes=[1]) * x.shape[1]
        index = _ops.reshape2(indices + first, shape=[-1])
        index.stop_gradient = True
        rest = list(x.shape[2:])
        return _ops.reshape2(
            _ops.gather(_ops.reshape2(x, shape=[-1, *rest]), index), shape=[-1, indices.shape[1], *rest]
        )

    def initialize(self, initial_cell_states: Any) -> tuple[Any, Any, Any]:
        """(first inputs, first states, finished); all [batch, beams, ...].

        Args:
            initial_cell_states: the cell's first states, [batch, ...].
        """
        state = flatten(initial_cell_states)[0]
        self.kinf = 1e9
        self.batch_size = cast(_first_size(state), _INT64)
        self.start_token_tensor, self.end_token_tensor = (
            _ops.fill_constant(shape=[1], dtype=_INT64, value=float(token))
            for token in (self.start_token, self.end_token)
        )
        cell_states = map_structure(self._expand_to_beam_size, initial_cell_states)

        def filled(dtype: Any, value: float) -> Any:
            return _ops.fill_constant_batch_size_like(state, shape=[-1, self.beam_size], dtype=dtype, value=value)

        inputs = filled(_INT64, float(self.start_token))
        finished = filled(VarType.BOOL, 0.0)
        lengths = filled(_INT64, 0.0)
        # All beams but the first start with probability 0; otherwise all would produce the same sequences.
        first = assign_array(np.array([[0.0] + [-self.kinf] * (self.beam_size - 1)], "float32"))
        dtype = convert_np_dtype_to_dtype_(get_default_dtype())
        log_probs = filled(dtype, 0.0) + cast(first, dtype)
        inputs = self.embedding_fn(inputs) if self.embedding_fn else inputs
        return inputs, self.StateWrapper(cell_states, log_probs, finished, lengths), finished

    def _beam_search_step(self, time: Any, logits: Any, next_cell_states: Any, beam_state: Any) -> tuple[Any, Any]:
        self.vocab_size = logits.shape[-1]
        self.vocab_size_tensor = _ops.fill_constant(shape=[1], dtype=_INT64, value=float(self.vocab_size))
        only_end = np.full([self.vocab_size], -self.kinf, "float32")
        only_end[self.end_token] = 0
        probs = _ops.log(_ops.softmax(logits))
        self.noend_mask_tensor = cast(assign_array(only_end), probs.dtype)
        probs = self._mask_probs(probs, beam_state.finished)
        log_probs = _ops.elementwise_add(probs, beam_state.log_probs, axis=0)
        scores = _ops.reshape2(log_probs, shape=[-1, self.beam_size * self.vocab_size])
        best, index = _ops.top_k(scores, k=self.beam_size)
        beams = _ops.elementwise_floordiv(index, self.vocab_size_tensor)
        ids = _ops.elementwise_mod(index, self.vocab_size_tensor)
        cell_states = map_structure(lambda x: self._gather(x, beams, self.batch_size), next_cell_states)
        finished = cast(self._gather(cast(beam_state.finished, _INT64), beams, self.batch_size), VarType.BOOL)
        lengths = self._gather(beam_state.lengths, beams, self.batch_size) + cast(_ops.logical_not(finished), _INT64)
        finished = _ops.logical_or(finished, _ops.equal(ids, self.end_token_tensor))
        return self.OutputWrapper(best, ids, beams), self.StateWrapper(cell_states, best, finished, lengths)

    def step(self, time: Any, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any, Any, Any]:
        """(outputs, next states, next inputs, finished): one cell step and selection of continuations."""
        inputs = map_structure(self._merge_batch_beams, inputs)
        cell_states = map_structure(self._merge_batch_beams, states.cell_states)
        outputs, next_states = self.cell(inputs, cell_states, **kwargs)
        outputs = map_structure(self._split_batch_beams, outputs)
        next_states = map_structure(self._split_batch_beams, next_states)
        if self.output_fn is not None:
            outputs = self.output_fn(outputs)
        found, beam_states = self._beam_search_step(time, outputs, next_states, states)
        ids = found.predicted_ids
        ids.stop_gradient = True
        return found, beam_states, self.embedding_fn(ids) if self.embedding_fn else ids, beam_states.finished

    def finalize(self, outputs: Any, final_states: Any, sequence_lengths: Any) -> tuple[Any, Any]:
        """(the complete sequence of ids of each beam, the states); outputs are [steps, batch, beams]."""
        return gather_tree(outputs.predicted_ids, outputs.parent_ids), final_states

    @property
    def tracks_own_finished(self) -> bool:
        """True: beams are reordered in each step, so `finished` of earlier steps refers to other sequences."""
        return True


def _first_size(x: Any) -> Any:
    """The number of rows of `x`, as an integer Tensor of shape [1]."""
    return _ops.slice(_ops.shape(x), axes=[0], starts=[0], ends=[1])


def _tiled(x: Any, times: int) -> Any:
    """[batch, ...] to [batch, times, ...]"""
    return _ops.expand(_ops.unsqueeze2(x, axes=[1]), expand_times=[1, times] + [1] * (len(x.shape) - 1))


def _kept(old: Any, new: Any, finished: Any) -> Any:
    """`old` where a sequence is finished, `new` elsewhere."""
    dtype = old.dtype
    work = VarType.FP32 if dtype == VarType.BOOL else dtype
    old, new, ended = cast(old, work), cast(new, work), cast(finished, work)
    ended.stop_gradient = True
    kept = _ops.elementwise_mul(old, ended, axis=0) - _ops.elementwise_mul(new, ended - 1, axis=0)
    return cast(kept, dtype)


def _lengths_of(states: Any, lengths: Any) -> Any:
    if not hasattr(states, "lengths"):
        warnings.warn("dynamic_decode: the states of the decoder have no `lengths`; the returned lengths are zeros")
    return getattr(states, "lengths", lengths)


def _ended(decoder: Any, states: Any, new: Any, finished: Any, before: Any, lengths: Any, impute: bool) -> tuple:
    """Finished flags after a step, the updated lengths, and the states after the step."""
    if decoder.tracks_own_finished:
        return finished, _lengths_of(new, lengths), new
    lengths = lengths + cast(_ops.logical_not(before), lengths.dtype)
    if impute:
        new = map_structure(lambda a, b: _kept(a, b, before), states, new)
    return _ops.logical_or(finished, before), lengths, new


def _steps(decoder: Any, inits: Any, most: int | None, impute: bool, kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The loop in dygraph mode: outputs [steps, ...], states, lengths."""
    inputs, states, finished = decoder.initialize(inits)
    lengths = cast(_ops.fill_zeros_like(finished), _INT64)
    outputs: list[list[Any]] = []
    template = None
    while not bool(finished.numpy().all()):
        time = _ops.fill_constant(shape=[1], dtype=_INT64, value=float(len(outputs)))
        template, new, inputs, ended = decoder.step(time, inputs, states, **kwargs)
        outputs.append(flatten(template))
        finished, lengths, states = _ended(decoder, states, new, ended, finished, lengths, impute)
        if most is not None and len(outputs) > most:
            break
    if template is None:
        raise ValueError("dynamic_decode: all sequences are finished before the first step")
    stacked = iter([_ops.stack(list(each), axis=0) for each in zip(*outputs, strict=True)])
    return map_structure(lambda _: next(stacked), template), states, lengths


def _append_steps(
    decoder: Any, inits: Any, most: int | None, impute: bool, is_test: bool, kwargs: dict[str, Any]
) -> tuple[Any, Any, Any]:
    """The loop in a Program (a while operator); with `is_test` only the states of the last step are kept."""
    first_inputs, first_states, finished = decoder.initialize(inits)
    finished.stop_gradient = True
    time = _ops.fill_constant(shape=[1], dtype=_INT64, value=0.0)
    going = _ops.logical_not(_all(finished))
    end = None if most is None else _ops.fill_constant(shape=[1], dtype=_INT64, value=float(most))
    lengths = cast(_ops.fill_zeros_like(finished), _INT64)
    lengths.stop_gradient = True
    if not is_test:
        input_arrays = map_structure(lambda x: array_write(x, time), first_inputs)
        state_arrays = map_structure(lambda x: array_write(x, time), first_states)

    def read(arrays: Any, likes: Any) -> Any:
        return map_structure(lambda a, x: shaped_like(array_read(a, time), x), arrays, likes)

    loop = While(going, is_test=is_test)
    with loop.block():
        inputs = first_inputs if is_test else read(input_arrays, first_inputs)
        states = first_states if is_test else read(state_arrays, first_states)
        outputs, new, next_inputs, ended = decoder.step(time, inputs, states, **kwargs)
        ended, now, new = _ended(decoder, states, new, ended, finished, lengths, impute)
        arrays = map_structure(array_outside, outputs)
        map_structure(lambda x, a: array_write(x, time, a), outputs, arrays)
        _ops.increment(time, step=1.0, Out=time)
        _ops.assign(ended, Out=finished)
        _ops.assign(now, Out=lengths)
        if is_test:
            map_structure(lambda x, to: _ops.assign(x, Out=to), next_inputs, first_inputs)
            map_structure(lambda x, to: _ops.assign(x, Out=to), new, first_states)
        else:
            map_structure(lambda x, a: array_write(x, time, a), next_inputs, input_arrays)
            map_structure(lambda x, a: array_write(x, time, a), new, state_arrays)
        on = _ops.logical_not(_all(finished))
        if end is not None:
            on = _ops.logical_and(on, _ops.less_equal(time, end))
        _ops.assign(on, Out=going)
    stacked = map_structure(lambda a: _ops.tensor_array_to_tensor(a, axis=0, use_stack=True)[0], arrays)
    return stacked, first_states if is_test else read(state_arrays, first_states), lengths


def _all(x: Any) -> Any:
    return _ops.reduce_all(x, reduce_all=True)


def dynamic_decode(
    decoder: Any,
    inits: Any = None,
    max_step_num: int | None = None,
    output_time_major: bool = False,
    impute_finished: bool = False,
    is_test: bool = False,
    return_length: bool = False,
    **kwargs: Any,
) -> tuple[Any, ...]:
    """Runs a decoder until all sequences are finished.

    Args:
        decoder: a decoder, such as BeamSearchDecoder.
        inits: argument of `decoder.initialize`.
        max_step_num: stop after max_step_num + 1 steps (default: when all sequences are finished).
        output_time_major: outputs are [steps, batch, ...] instead of [batch, steps, ...].
        impute_finished: finished sequences keep their states.
        is_test: in a Program, keep no intermediate results for gradients.
        return_length: also return the lengths.
        kwargs: passed to `decoder.step`.

    Returns:
        (outputs, final states), with `return_length` followed by the int64 lengths of the sequences.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.0-rc/api/paddle/nn/decode/dynamic_decode_en.html

    Examples:
        >>> import paddle
        >>> embedding, linear = paddle.nn.Embedding(10, 4), paddle.nn.Linear(4, 10)
        >>> cell = paddle.nn.SimpleRNNCell(4, 4)
        >>> decoder = paddle.nn.BeamSearchDecoder(cell, 0, 1, 2, embedding, linear)
        >>> first = cell.get_initial_states(paddle.ones([3, 4]))
        >>> ids, states, lengths = paddle.nn.dynamic_decode(decoder, first, max_step_num=5, return_length=True)
        >>> lengths.shape
        [3, 2]
    """
    if in_static_mode():
        outputs, states, lengths = _append_steps(decoder, inits, max_step_num, impute_finished, is_test, kwargs)
    else:
        outputs, states, lengths = _steps(decoder, inits, max_step_num, impute_finished, kwargs)
    try:
        outputs, states = decoder.finalize(outputs, states, lengths)
    except NotImplementedError:
        pass
    if not output_time_major:
        outputs = map_structure(swap, outputs)
    return (outputs, states, lengths) if return_length else (outputs, states)
