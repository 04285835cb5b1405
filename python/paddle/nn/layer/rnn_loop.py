"""rnn and birnn: recurrent cells run over the steps of sequences."""

from __future__ import annotations

from functools import partial
from typing import Any

from paddle import _ops
from paddle._basics.mode import in_static_mode
from paddle._basics.structure import assert_same_structure, flatten, map_structure
from paddle._dispatch.argument_checks import check_arguments
from paddle._programs.while_block import While
from paddle.tensor.array import array_read, array_write, create_array

__all__ = ["birnn", "rnn"]


def swap(x: Any) -> Any:
    """[a, b, ...] to [b, a, ...]"""
    return _ops.transpose2(x, axis=[1, 0, *range(2, len(x.shape))])


def backwards(x: Any, axis: int = 0) -> Any:
    return _ops.reverse(x, axis=[axis])


def _length_of(x: Any) -> Any:
    """The first size of `x` as an int64 Tensor of shape [1]."""
    return _ops.cast(_ops.slice(_ops.shape(x), axes=[0], starts=[0], ends=[1]), in_dtype=2, out_dtype=3)


def _masks(sequence_length: Any, steps: Any, dtype: Any) -> Any:
    """[steps, batch]: 1 where a sequence has that step, else 0. `steps` is an int64 Tensor of shape [1]."""
    zero, one = (_ops.fill_constant(shape=[1], value=float(v), dtype=3) for v in (0, 1))
    at = _ops.unsqueeze2(_ops.range(zero, steps, one), axes=[1])
    lengths = _ops.cast(_ops.unsqueeze2(sequence_length, axes=[0]), in_dtype=sequence_length.dtype, out_dtype=3)
    on = _ops.less_than(at, lengths)
    mask = _ops.cast(on, in_dtype=on.dtype, out_dtype=dtype)
    mask.stop_gradient = True
    return mask


def sequence_masks(sequence_length: Any, x: Any, dtype: Any) -> Any:
    """[steps, batch] for `x` [steps, batch, ...]: 1 where a sequence has that step, else 0."""
    return _masks(sequence_length, _length_of(x), dtype)


def chosen(old: Any, new: Any, mask: Any) -> Any:
    """`new` in the rows where `mask` is 1, `old` where it is 0."""
    return _ops.elementwise_mul(new, mask, axis=0) + _ops.elementwise_mul(old, 1 - mask, axis=0)


def _run_steps(cell: Any, inputs: Any, states: Any, mask: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Calls the cell for each step of `inputs` ([steps, ...]); returns its stacked outputs and the last states."""
    outputs: list[list[Any]] = []
    template = None
    for i in range(flatten(inputs)[0].shape[0]):
        out, new = cell(map_structure(lambda x, i=i: x[i], inputs), states, **kwargs)
        states = new if mask is None else map_structure(partial(chosen, mask=mask[i]), states, new)
        template = out
        outputs.append(flatten(out))
    if template is None:
        raise ValueError("rnn: the inputs must have at least one step")
    stacked = iter([_ops.stack(list(steps), axis=0) for steps in zip(*outputs, strict=True)])
    return map_structure(lambda _: next(stacked), template), states


def _append_loop(cell: Any, inputs: Any, states: Any, mask: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """`_run_steps` as a while loop in the Program: the cell is called once, in the loop's block."""
    first = flatten(inputs)[0]
    step = _ops.fill_constant(shape=[1], dtype=3, value=0.0)
    steps = _length_of(first)
    steps.stop_gradient = True
    held = map_structure(lambda x: array_write(x, step), states)
    going = _ops.less_than(step, steps)
    loop = While(going)
    outside = loop_block_arrays = None
    with loop.block():
        row = [_ops.squeeze2(_ops.gather(x, step), axes=[0]) for x in flatten(inputs)]
        rows = iter(row)
        now = map_structure(lambda x: array_read(x, step), held)
        now = map_structure(shaped_like, now, states)
        out, new = cell(map_structure(lambda _: next(rows), inputs), now, **kwargs)
        assert_same_structure(now, new, check_types=False)
        if mask is not None:
            at = _ops.squeeze2(_ops.gather(mask, step), axes=[0])
            new = map_structure(partial(chosen, mask=at), now, new)
        outside = map_structure(array_outside, out)
        loop_block_arrays = map_structure(lambda x, a: array_write(x, step, a), out, outside)
        _ops.increment(step, step=1.0, Out=step)
        map_structure(lambda x, a: array_write(x, step, a), new, held)
        _ops.less_than(step, steps, Out=going)
    outputs = map_structure(lambda a: _ops.tensor_array_to_tensor(a, axis=0, use_stack=True)[0], loop_block_arrays)
    return outputs, map_structure(shaped_like, map_structure(lambda x: array_read(x, step), held), states)


def shaped_like(x: Any, like: Any) -> Any:
    """`x`, read from an array, with the shape that `like` had when it was written."""
    x.desc.set_shape(list(like.shape))
    return x


def array_outside(x: Any) -> Any:
    """A LoDTensorArray in the parent of the current block."""
    program = x.block.program
    inner = program.current_block_idx
    program.current_block_idx = program.current_block().parent_idx
    array = create_array(x.dtype)
    program.current_block_idx = inner
    return array


def rnn(
    cell: Any,
    inputs: Any,
    initial_states: Any = None,
    sequence_length: Any = None,
    time_major: bool = False,
    is_reverse: bool = False,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """Runs a cell over the steps of sequences.

    Args:
        cell: called with inputs and states of a step; returns outputs and new states.
        inputs: Tensor [batch, steps, ...], or a structure of these.
        initial_states: the initial states, structured like the cell's (default: `cell.get_initial_states`).
        sequence_length: int32 or int64 Tensor [batch]: a sequence keeps its states after this many steps.
        time_major: the inputs and outputs are [steps, batch, ...].
        is_reverse: run from the last step to the first.
        kwargs: passed to the cell.

    Returns:
        (outputs, final states); outputs [batch, steps, ...] in the structure of the cell's.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.0-rc/api/paddle/fluid/layers/rnn_en.html

    Examples:
        >>> import paddle
        >>> cell = paddle.nn.SimpleRNNCell(4, 3)
        >>> y, h = paddle.fluid.layers.rnn(cell, paddle.ones([2, 5, 4]))
        >>> y.shape, h.shape
        ([2, 5, 3], [2, 3])
    """
    check_arguments("rnn", inputs, initial_states, sequence_length)
    if initial_states is None:
        initial_states = cell.get_initial_states(batch_ref=inputs, batch_dim_idx=1 if time_major else 0)
    if not time_major:
        inputs = map_structure(swap, inputs)
    mask = None
    if sequence_length is not None:
        mask = sequence_masks(sequence_length, flatten(inputs)[0], flatten(initial_states)[0].dtype)
    if is_reverse:
        inputs = map_structure(backwards, inputs)
        mask = None if mask is None else backwards(mask)
    run = _append_loop if in_static_mode() else _run_steps
    outputs, states = run(cell, inputs, initial_states, mask, kwargs)
    if is_reverse:
        outputs = map_structure(backwards, outputs)
    if not time_major:
        outputs = map_structure(swap, outputs)
    return outputs, states


def birnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    initial_states: Any = None,
    sequence_length: Any = None,
    time_major: bool = False,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """Runs one cell forwards and another one backwards over the steps of sequences.

    Args:
        cell_fw, cell_bw: the cells, as for :func:`rnn`.
        inputs: Tensor [batch, steps, ...], or a structure of these.
        initial_states: a pair of the cells' states (default: their own initial states).
        sequence_length, time_major, kwargs: as for :func:`rnn`.

    Returns:
        (outputs, (forward states, backward states)); outputs are concatenated along the last dimension.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.0-rc/api/paddle/fluid/layers/birnn_en.html

    Examples:
        >>> import paddle
        >>> cells = paddle.nn.GRUCell(4, 3), paddle.nn.GRUCell(4, 3)
        >>> y, (forward, backward) = paddle.fluid.layers.birnn(*cells, paddle.ones([2, 5, 4]))
        >>> y.shape, backward.shape
        ([2, 5, 6], [2, 3])
    """
    if initial_states is None:
        batch = 1 if time_major else 0
        initial_states = [cell.get_initial_states(batch_ref=inputs, batch_dim_idx=batch) for cell in (cell_fw, cell_bw)]
    states_fw, states_bw = initial_states
    out_fw, last_fw = rnn(cell_fw, inputs, states_fw, sequence_length, time_major, **kwargs)
    out_bw, last_bw = rnn(cell_bw, inputs, states_bw, sequence_length, time_major, True, **kwargs)
    return map_structure(lambda a, b: _ops.concat([a, b], axis=-1), out_fw, out_bw), (last_fw, last_bw)
