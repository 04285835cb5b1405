"""Decoders of fluid.contrib, compared with numpy implementations."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle.fluid.contrib import BeamSearchDecoder, InitState, StateCell, TrainingDecoder
from paddle.fluid.contrib.decoder.beam_search_decoder import StateCell as SameCell


@pytest.fixture(autouse=True)
def _dygraph_again():
    yield
    paddle.disable_static()


WORDS, WIDTH, STEPS = 7, 4, 6


@pytest.fixture(autouse=True)
def program():
    paddle.enable_static()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        with fluid.scope_guard(fluid.Scope()):
            yield fluid.default_main_program()


def cell_of(state, inputs=("x",), **more):
    cell = StateCell({name: None for name in inputs}, {"h": InitState(init=state, **more)}, "h")

    @cell.state_updater
    def updater(cell):
        parts = [cell.get_state("h"), *(cell.get_input(name) for name in inputs)]
        cell.set_state("h", fluid.layers.fc(parts, WIDTH, act="tanh"))

    return cell


def filled(exe, program):
    """Distinct numbers for every parameter, in the order of the Program, without ties."""
    exe.run(fluid.default_startup_program())
    rng = np.random.default_rng(3)
    values = []
    for var in program.all_parameters():
        values.append(rng.normal(size=var.shape).astype("float32"))
        fluid.global_scope().find_var(var.name).get_tensor().set(values[-1], fluid.CPUPlace())
    return values


def test_training(program):
    cell = cell_of(fluid.data("h", [None, WIDTH]), need_reorder=True)
    decoder = TrainingDecoder(cell)
    words = fluid.data("words", [None, 3], lod_level=1)
    with decoder.block():
        assert decoder.state_cell is cell
        decoder.state_cell.compute_state(inputs={"x": decoder.step_input(words)})
        decoder.state_cell.update_states()
        decoder.output(decoder.state_cell.out_state())
    out = decoder()
    exe = fluid.Executor(fluid.CPUPlace())
    w_h, w_x, b = filled(exe, program)
    rng = np.random.default_rng(0)
    first, lengths = rng.normal(size=(3, WIDTH)).astype("float32"), [2, 4, 1]
    steps = rng.normal(size=(7, 3)).astype("float32")
    fed = fluid.create_lod_tensor(steps, [lengths], fluid.CPUPlace())
    (got,) = exe.run(program, feed={"h": first, "words": fed}, fetch_list=[out], return_numpy=False)
    want = []
    for state, sequence in zip(first, np.split(steps, np.cumsum(lengths)[:-1]), strict=True):
        for x in sequence:
            state = np.tanh(state @ w_h + x @ w_x + b)
            want.append(state)
    np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-6)
    assert got.recursive_sequence_lengths() == [lengths]


def search(values, state, beam, end, context=None):
    """A beam search of one source: [(words, score)], best first."""
    embedding, w_h, *w_more, b, w_out, b_out = values
    beams = [([0], 0.0, state)]
    for _ in range(STEPS):
        found = []
        for words, score, h in beams:
            if words[-1] == end:
                found.append((words, score, h))
                continue
            parts = [embedding[words[-1]]] if context is None else [embedding[words[-1]], context]
            h = np.tanh(h @ w_h + sum(p @ w for p, w in zip(parts, w_more, strict=True)) + b)
            logits = h @ w_out + b_out
            logs = logits - np.log(np.exp(logits).sum())
            found += [([*words, k], score + logs[k], h) for k in range(WORDS)]
        beams = sorted(found, key=lambda f: -f[1])[:beam]
        if all(words[-1] == end for words, _, _ in beams):
            break
    return [(words, score) for words, score, _ in beams]


@pytest.mark.parametrize(("beam", "end", "more"), [(1, 1, False), (2, 1, False), (3, 4, False), (2, 5, True)])
def test_search(program, beam, end, more):
    cell = cell_of(fluid.data("h", [None, WIDTH]), ("x", "context") if more else ("x",))
    ids = fluid.data("ids", [None, 1], "int64", lod_level=2)
    scores = fluid.data("scores", [None, 1], "float32", lod_level=2)
    context = fluid.data("context", [None, 2])
    decoder = BeamSearchDecoder(
        cell,
        ids,
        scores,
        WORDS,
        WIDTH,
        {"context": context} if more else {},
        topk_size=WORDS,
        max_len=STEPS,
        beam_size=beam,
        end_id=end,
    )
    decoder.decode()
    result = decoder()
    exe = fluid.Executor(fluid.CPUPlace())
    values = filled(exe, program)
    rng = np.random.default_rng(1)
    first, around = (rng.normal(size=(2, n)).astype("float32") for n in (WIDTH, 2))
    lod, place = [[1, 1], [1, 1]], fluid.CPUPlace()
    feed = {
        "h": first,
        "context": around,
        "ids": fluid.create_lod_tensor(np.zeros((2, 1), "int64"), lod, place),
        "scores": fluid.create_lod_tensor(np.zeros((2, 1), "float32"), lod, place),
    }
    words, got = exe.run(program, feed=feed, fetch_list=list(result), return_numpy=False)
    want = [search(values, h, beam, end, c if more else None) for h, c in zip(first, around, strict=True)]
    counts, lengths = words.recursive_sequence_lengths()
    assert counts == [beam, beam]
    sequences = np.split(np.array(words).ravel(), np.cumsum(lengths)[:-1])
    last = [part[-1] for part in np.split(np.array(got).ravel(), np.cumsum(lengths)[:-1])]
    flat = [item for source in want for item in source]
    assert [s.tolist() for s in sequences] == [item[0] for item in flat]
    np.testing.assert_allclose(last, [item[1] for item in flat], rtol=1e-4)


def test_state_created_by_shape(program):
    boot = fluid.data("boot", [None, 1], "int64")
    state = InitState(shape=[-1, 3], value=2.5, init_boot=boot, dtype="float64")
    (got,) = fluid.Executor(fluid.CPUPlace()).run(feed={"boot": np.zeros((2, 1), "int64")}, fetch_list=[state.value])
    np.testing.assert_array_equal(got, np.full((2, 3), 2.5))
    assert not state.need_reorder and SameCell is StateCell


def test_errors(program):
    h = fluid.data("h", [None, WIDTH])
    with pytest.raises(ValueError, match="init_boot"):
        InitState(shape=[-1, 3])
    with pytest.raises(ValueError, match="'h' must be an InitState"):
        StateCell({}, {"h": h}, "h")
    with pytest.raises(ValueError, match="out_state is 'g'"):
        StateCell({}, {"h": InitState(h)}, "g")
    cell = StateCell({"x": None}, {"h": InitState(h)}, "h")
    for wrong, says in [
        (lambda: cell.get_state("g"), "no state 'g'"),
        (lambda: cell.get_input("x"), "'x' has no value"),
        (lambda: cell.compute_state({}), "state_updater"),
    ]:
        with pytest.raises(ValueError, match=says):
            wrong()
    decoder = TrainingDecoder(cell)
    with pytest.raises(ValueError, match="entered a decoder already"):
        TrainingDecoder(cell)
    for wrong in (lambda: decoder.state_cell, lambda: decoder.step_input(h), lambda: decoder.output(h)):
        with pytest.raises(ValueError, match="must be used inside of block"):
            wrong()
    with pytest.raises(ValueError, match="after block.. only"):
        decoder()
