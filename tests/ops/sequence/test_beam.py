"""Beam search: a step compared with a direct search, and sentences from recorded steps."""

from __future__ import annotations

import numpy as np
import pytest
from case import covers
from paddle import _ops
from paddle.fluid import core

END = 0


def tensor(values, lod=(), dtype="int64"):
    t = core.LoDTensor()
    t.set(np.array(values, dtype), None)
    if lod:
        t.set_lod([list(level) for level in lod])
    return core.VarBase(t)


def lod_of(t):
    return t.value().get_tensor().lod()


# Two sources; the first has prefixes 0 and 1 (1 is finished), the second prefix 2.
SOURCES = [0, 2, 3]
LOD = (SOURCES, [0, 1, 2, 3])
PRE_IDS, PRE_SCORES = [[4], [END], [5]], [[0.5], [2.0], [0.25]]
IDS = [[3, 1], [8, 9], [7, 6]]
SCORES = [[0.7, 2.5], [9.0, 9.0], [0.3, 0.1]]


def search(beam_size, ids=IDS, pre_ids=PRE_IDS, accumulated=True):
    return _ops.beam_search(
        tensor(pre_ids),
        tensor(PRE_SCORES, dtype="float32"),
        None if ids is None else tensor(ids),
        tensor(SCORES, LOD, "float32"),
        level=0,
        beam_size=beam_size,
        end_id=END,
        is_accumulated=accumulated,
        parent_idx=core.VarBase(),
    )


@covers("beam_search")
def test_step():
    ids, scores, parents = search(2)
    # First source: token 1 of prefix 0 (2.5), the finished prefix 1 with its own score (2.0).
    assert ids.numpy()[:, 0].tolist() == [1, END, 7, 6]
    np.testing.assert_allclose(scores.numpy()[:, 0], [2.5, 2.0, 0.3, 0.1])
    assert parents.numpy().tolist() == [0, 1, 2, 2]
    assert lod_of(ids) == lod_of(scores) == [SOURCES, [0, 1, 2, 4]]


@covers("beam_search")
def test_more_beams_than_candidates_and_probabilities():
    ids, scores, _ = search(9, accumulated=False)
    assert lod_of(ids) == [SOURCES, [0, 2, 3, 5]]
    want = [0.5 + np.log(2.5), 0.5 + np.log(0.7), 2.0, 0.25 + np.log(0.3), 0.25 + np.log(0.1)]
    np.testing.assert_allclose(scores.numpy()[:, 0], want, rtol=1e-6)
    # Without ids the index of a candidate is its token.
    assert search(9, ids=None)[0].numpy()[:, 0].tolist() == [1, 0, END, 0, 1]


@covers("beam_search")
def test_a_finished_source_is_removed():
    ids, _, parents = search(2, ids=[[END, END], [8, 9], [7, 6]], pre_ids=[[END], [END], [5]])
    assert lod_of(ids) == [SOURCES, [0, 0, 0, 2]] and parents.numpy().tolist() == [2, 2]


@pytest.mark.parametrize(
    ("change", "match"),
    [({"beam_size": 0}, "beam_size"), ({"level": 2}, "level"), ({"beam_size": 1 << 30}, "beam_size")],
)
def test_wrong_attributes(change, match):
    attrs = {"level": 0, "beam_size": 2, "end_id": END} | change
    with pytest.raises(ValueError, match=match):
        _ops.beam_search(
            tensor(PRE_IDS), tensor(PRE_SCORES, dtype="float32"), None, tensor(SCORES, LOD, "float32"), **attrs
        )


def test_wrong_operands():
    with pytest.raises(ValueError, match="pre_ids"):
        _ops.beam_search(
            tensor([[1]]),
            tensor(PRE_SCORES, dtype="float32"),
            None,
            tensor(SCORES, LOD, "float32"),
            level=0,
            beam_size=2,
            end_id=END,
        )
    with pytest.raises(ValueError, match="level"):
        _ops.beam_search(
            tensor(PRE_IDS),
            tensor(PRE_SCORES, dtype="float32"),
            None,
            tensor(SCORES, (), "float32"),
            level=0,
            beam_size=2,
            end_id=END,
        )


def decode(steps, beam_size):
    """`steps`: (tokens, scores, LoD) of each step."""
    import paddle
    import paddle.fluid as fluid

    with paddle._basics.mode._dygraph_guard(None), fluid.program_guard(fluid.Program()):
        scope = fluid.Scope()
        kind = core.VarDesc.VarType.LOD_TENSOR_ARRAY
        block = fluid.default_main_program().current_block()
        arrays = [
            block.create_var(name=n, type=kind, dtype=t, persistable=True)
            for n, t in (("ids", "int64"), ("scores", "float32"))
        ]
        for k, var in enumerate(arrays):
            held = scope.var(var.name).get_lod_tensor_array()
            for step in steps:
                t = core.LoDTensor()
                t.set(np.array(step[k], var_dtype(k)), None)
                t.set_lod([list(level) for level in step[2]])
                held.append(t)
        out = fluid.layers.beam_search_decode(*arrays, beam_size=beam_size, end_id=END)
        exe = fluid.Executor(fluid.CPUPlace())
        return exe.run(fetch_list=list(out), scope=scope, return_numpy=False)


def var_dtype(k):
    return ("int64", "float32")[k]


# One source. Step 0: tokens 2 and 3 from the start; step 1: 2 -> 4, 3 -> END and 5; step 2: 4 -> END, 5 -> 6.
STEPS = [
    ([2, 3], [0.5, 0.4], ([0, 1], [0, 2])),
    ([4, END, 5], [0.9, 0.8, 0.7], ([0, 2], [0, 1, 3])),
    ([END, END, 6], [1.0, 0.8, 2.0], ([0, 3], [0, 1, 2, 3])),
]


@covers("beam_search_decode")
def test_sentences():
    ids, scores = decode(STEPS, 3)
    assert ids.lod() == scores.lod() == [[0, 3], [0, 3, 6, 8]]
    # The best last score first; of several END tokens one is kept.
    assert np.array(ids).tolist() == [3, 5, 6, 2, 4, END, 3, END]
    np.testing.assert_allclose(np.array(scores), [0.4, 0.7, 2.0, 0.5, 0.9, 1.0, 0.4, 0.8])


@pytest.mark.parametrize(
    ("steps", "beam_size", "match"),
    [
        (STEPS, 2, "beam_size"),
        ([([2, 3], [0.5, 0.4], ([0, 2],))], 2, "two levels"),
        (STEPS[:1] + STEPS[2:], 3, "continues candidate"),
    ],
)
def test_decode_errors(steps, beam_size, match):
    with pytest.raises(ValueError, match=match):
        decode(steps, beam_size)
