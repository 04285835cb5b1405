"""pyramid_hash: embeddings of n-grams. Positions and random draws are those of Paddle 2.6.2 for these words."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from case import to_eager
from paddle import _core

WORDS, LOD = np.int32([5, 3, 9, 1, 7, 3, 2, 2])[:, None], [[0, 3, 4, 8]]
SIZES = {"num_emb": 16, "space_len": 100, "rand_len": 8, "pyramid_layer": 4, "seed": 7}
W = np.arange(108, dtype="float32")[:, None]
# The offsets of the two pieces of each n-gram's row.
FIRST, SECOND = [48, 75, 34, 88, 70, 71, 38, 88, 78], [89, 61, 85, 43, 52, 10, 81, 43, 50]


def call(w=W, white=None, black=None, **attrs):
    filters = [None if f is None else to_eager(f) for f in (white, black)]
    return _core.ops.pyramid_hash(to_eager(WORDS, LOD), to_eager(w), *filters, **{**SIZES, **attrs})


def lengths(t):
    return t.value().get_tensor().recursive_sequence_lengths()[0]


@pytest.mark.operators("pyramid_hash", "pyramid_hash_grad")
def test_rows_are_sliced_at_hashed_offsets():
    out, drop, temp = call(is_training=1)
    assert lengths(out) == [3, 1, 6] and lengths(drop) == [3, 0, 6]
    rows = np.delete(out.numpy(), 3, axis=0)
    assert (out.numpy()[3] == 0).all()
    want = [[*range(a, a + 8), *range(b, b + 8)] for a, b in zip(FIRST, SECOND, strict=True)]
    np.testing.assert_array_equal(rows, want)
    assert drop.shape == [32, 1] and temp.numpy().ravel().tolist() == WORDS.ravel().tolist()


def test_dropout_in_training():
    out, drop, _ = call(is_training=1, drop_out_percent=0.4)
    assert drop.numpy()[:9].ravel().tolist() == [1, 0, 1, 0, 1, 0, 0, 0, 1]
    assert out.numpy()[:, 0].tolist() == [48, 34, 0, 70, 78] and lengths(out) == [2, 1, 2]


def test_other_types_and_uses():
    half = call(drop_out_percent=0.5)[0].numpy()
    assert half[:, 0].tolist() == [24.0, 37.5, 17.0, 0.0, 44.0, 35.0, 35.5, 19.0, 44.0, 39.0]
    whole = call(w=W.astype("int8"), drop_out_percent=0.5)[0].numpy()
    assert whole.dtype == np.int8 and whole[:3, 0].tolist() == FIRST[:3]


def filter_of(bits: int, full: bool) -> np.ndarray:
    """A Bloom filter that contains every n-gram, or none."""
    head = np.array([17070416, bits, 3, 0], "uint64").tobytes()
    return np.frombuffer(head + bytes([255 * full]) * (bits // 8), "float32")[:, None].copy()


def test_filters():
    everything, nothing = filter_of(1024, True), filter_of(1024, False)
    n = len(everything)
    both = {"white_list_len": n, "black_list_len": n}
    taken, _, _ = call(white=everything, black=nothing, is_training=1, **both)
    assert lengths(taken) == [3, 1, 6]
    for white, black in ((nothing, nothing), (everything, everything)):
        assert lengths(call(white=white, black=black, is_training=1, **both)[0]) == [1, 1, 1]
    assert lengths(call(white=nothing, black=nothing, is_training=1, use_filter=False, **both)[0]) == [3, 1, 6]
    for head in (0, 1, 2):
        broken = everything.ravel().view("uint64").copy()
        broken[head] = [0, 2**40, 2**60][head]
        with pytest.raises(RuntimeError, match="is not a Bloom filter"):
            call(white=broken.view("float32").reshape(-1, 1), white_list_len=n)


def test_weights_are_updated_in_place():
    paddle.enable_static()
    try:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            words = fluid.data("words", [None, 1], "int32", lod_level=1)
            words.stop_gradient = False
            out = fluid.contrib.search_pyramid_hash(
                words, 16, 100, 4, 8, 0.4, True, False, 0, 0, 7, 0.5, param_attr=fluid.ParamAttr(name="weights")
            )
            fluid.backward.append_backward(fluid.layers.reduce_sum(out))
        assert "pyramid_hash_grad" in [op.type for op in main.global_block().ops]
        exe, scope = fluid.Executor(), fluid.core.Scope()
        with fluid.scope_guard(scope):
            exe.run(startup)
            scope.find_var("weights").get_tensor().set(W, fluid.CPUPlace())
            given = fluid.create_lod_tensor(WORDS, [[3, 1, 4]], fluid.CPUPlace())
            exe.run(main, feed={"words": given}, fetch_list=[out], return_numpy=False)
            got = np.array(scope.find_var("weights").get_tensor()).ravel()
    finally:
        paddle.disable_static()
    want = W.ravel().copy()
    for i in (0, 2, 4, 8):
        want[FIRST[i] : FIRST[i] + 8] -= 0.5
        want[SECOND[i] : SECOND[i] + 8] -= 0.5
    np.testing.assert_allclose(got, want)


def test_wrong_sizes():
    for attrs, match in (({"rand_len": 0}, "rand_len"), ({"num_emb": 12}, "multiple"), ({"space_len": 90}, "'W'")):
        with pytest.raises(ValueError, match=match):
            call(**attrs)
    with pytest.raises((MemoryError, ValueError)):
        call(pyramid_layer=2**31 - 1)
    with pytest.raises(ValueError, match="LoD"):
        _core.ops.pyramid_hash(to_eager(WORDS), to_eager(W), None, None, **SIZES)
