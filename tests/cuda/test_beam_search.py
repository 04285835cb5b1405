"""beam_search on the stand-in against the CPU: selections, their LoD and parents."""

import numpy as np
import paddle
import pytest
from agreement import on_cpu, tensor
from paddle import _core

SOURCES = [0, 2, 2, 5]  # prefixes of three sources, of which the second has none


def step(seed: int, with_ids: bool, accumulated: bool, ended: tuple[int, ...], device: bool) -> list:
    rng = np.random.default_rng(seed)
    pre_ids = rng.integers(2, 9, (5, 1))
    pre_ids[list(ended)] = 1
    # Few different scores, so that there are equal ones.
    scores = rng.integers(1, 5, (5, 4)).astype("float32") / 4
    pre_scores = rng.integers(1, 5, (5, 1)).astype("float32") / 4
    lod = [SOURCES, [0, 1, 2, 3, 4, 5]]
    ins = [
        tensor(pre_ids, lod, device),
        tensor(pre_scores, lod, device),
        tensor(rng.integers(1, 9, (5, 4)), lod, device) if with_ids else None,
        tensor(scores, lod, device),
    ]
    results = _core.ops.beam_search(*ins, level=0, beam_size=3, end_id=1, is_accumulated=accumulated)
    assert all(_core.device_of(t) == (0 if device else -1) for t in results)
    return [on_cpu(t) for t in results]


@pytest.mark.filterwarnings("error:operator:RuntimeWarning")
@pytest.mark.parametrize("ended", [(), (1, 3), (0, 1), (0, 1, 2, 3, 4)])
@pytest.mark.parametrize("accumulated", [False, True])
@pytest.mark.parametrize("with_ids", [False, True])
def test_selections(with_ids, accumulated, ended, shim):
    for seed in range(6):
        want, got = (step(seed, with_ids, accumulated, ended, device) for device in (False, True))
        for (w, w_lod), (g, g_lod) in zip(want, got, strict=True):
            assert w.shape == g.shape and w.dtype == g.dtype and w_lod == g_lod
            np.testing.assert_allclose(g, w, rtol=1e-6)
    assert "best_candidates" in shim.started


def test_wrong_operands_are_named(shim):
    x = paddle.to_tensor(np.ones((2, 1)), place=paddle.CUDAPlace(0))
    with pytest.raises(ValueError, match="beam_search"), pytest.warns(RuntimeWarning, match="beam_search"):
        _core.ops.beam_search(x, x, None, x, level=0, beam_size=3, end_id=1)
