"""NaN, infinite numbers, cancellation and tensors without elements: results are those of the CPU."""

import numpy as np
import pytest
from agreement import to_eager
from paddle import _core

NAN, INF = np.nan, np.inf
# numpy, which the stand-in computes with, warns of what is tested.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")


def runs(op: str, ins: dict, grad: str = "", **attrs) -> list[list]:
    """Results, and the gradient of an input, on the CPU and on the device."""
    found = []
    for device in (False, True):
        given = {k: to_eager(np.asarray(v), None) for k, v in ins.items()}
        given = {k: _core.copy_to_device(t, 0) if device else t for k, t in given.items()}
        if grad:
            given[grad].stop_gradient = False
        made = getattr(_core.ops, op)(**given, **attrs)
        outs = [t for t in (made if isinstance(made, list | tuple) else [made]) if t is not None]
        if grad:
            outs[0].sum().backward()
        found.append([*(t.numpy() for t in outs), *([given[grad].gradient()] if grad else [])])
    return found


def same(op: str, ins: dict, grad: str = "", **attrs) -> list:
    want, got = runs(op, ins, grad, **attrs)
    for w, g in zip(want, got, strict=True):
        assert w.shape == g.shape and w.dtype == g.dtype
        np.testing.assert_allclose(g, w, rtol=1e-6, atol=1e-6)
    return got


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_maxima_and_minima_of_nan(dtype, shim):
    """As in 2.0.2 the second operand, if they are not ordered."""
    x, y = np.array([[NAN, 1, NAN, 2]], dtype), np.array([[1, NAN, NAN, 3]], dtype)
    for op, last in (("elementwise_max", 3), ("elementwise_min", 2)):
        np.testing.assert_array_equal(same(op, {"X": x, "Y": y})[0], [[1, NAN, NAN, last]])
        np.testing.assert_array_equal(same(op, {"X": x, "Y": y[0]})[0], [[1, NAN, NAN, last]])


WINDOWS = [[1, NAN, 2, 0], [NAN, 1, 2, 0], [1, 2, 0, NAN], [NAN] * 4, [5, 2, NAN, 0], [-INF] * 4, [INF, 1, 2, INF]]


@pytest.mark.parametrize("op", ["pool2d", "max_pool2d_with_index"])
def test_windows_with_nan(op, shim):
    """A window of NaN is NaN; with positions NaN is ignored."""
    x = np.array(WINDOWS, "float32").reshape(len(WINDOWS), 1, 2, 2)
    attrs = {"ksize": [2, 2], "strides": [2, 2], "paddings": [0, 0]}
    found = same(op, {"X": x}, "X", **attrs, **({"pooling_type": "max"} if op == "pool2d" else {}))
    most = {"pool2d": [2, 2, NAN, NAN, 0], "max_pool2d_with_index": [2, 2, 2, -3.4028235e38, 5]}[op]
    np.testing.assert_array_equal(found[0].ravel()[:5], np.array(most, "float32"))


def test_volumes_with_nan(shim):
    x = np.array(WINDOWS, "float32").reshape(len(WINDOWS), 1, 1, 2, 2)
    attrs = {"ksize": [1, 2, 2], "strides": [1, 2, 2], "paddings": [0, 0, 0]}
    same("pool3d", {"X": x}, "X", pooling_type="max", **attrs)


def test_logsumexp_of_infinite_numbers(shim):
    x = np.array([[-INF, -INF], [-INF, 3.0], [1000.0, 1000.0]], "float32")
    found = same("logsumexp", {"X": x}, axis=[1])
    np.testing.assert_allclose(found[0], [-INF, 3.0, 1000.6931], rtol=1e-6)


def test_a_norm_of_nan_is_not_hidden(shim):
    x = np.array([1.0, NAN, 2.0], "float32")
    assert np.isnan(same("clip_by_norm", {"X": x}, max_norm=1.0)[0]).all()
    np.testing.assert_allclose(same("clip_by_norm", {"X": [3.0, 4.0]}, max_norm=1.0)[0], [0.6, 0.8])
    assert same("clip_by_norm", {"X": [0.0, 0.0]}, max_norm=1.0)[0].tolist() == [0, 0]


@pytest.mark.parametrize("reverse, want", [(False, [0, 1, 1e8, 1e8]), (True, [1e8 + 6, 5, 3, 0])])
def test_exclusive_sums_do_not_cancel(reverse, want, shim):
    x = np.array([1, 1e8, 2, 3], "float32")
    found = same("cumsum", {"X": x}, "X", axis=0, exclusive=True, reverse=reverse)
    np.testing.assert_allclose(found[0], want, rtol=1e-7)
    same("cumsum", {"X": x.reshape(2, 2)}, "X", flatten=True, exclusive=True, reverse=reverse)
    same("cumsum", {"X": x.reshape(2, 2)}, axis=-1, exclusive=True, reverse=reverse)


@pytest.mark.parametrize("version", ["", "_v2"])
@pytest.mark.parametrize("method", ["linear", "bilinear", "nearest", "bicubic", "trilinear"])
def test_infinite_pixels_stay_where_they_are(method, version, shim):
    """A mask of -inf is enlarged as on the CPU: results that do not read a pixel do not depend on it."""
    rank = {"linear": 1, "trilinear": 3}.get(method, 2)
    x = np.arange(2 * 4**rank, dtype="float32").reshape(1, 2, *(4,) * rank)
    x[(0, 0, *(0,) * rank)] = -INF
    x[(0, 1, *(3,) * rank)] = NAN
    sizes = dict(zip(("out_w",) if rank == 1 else ("out_h", "out_w") if rank == 2 else ("out_d", "out_h", "out_w"),
                     (7, 6, 9), strict=False))  # fmt: skip
    for align in (True, False):
        same(f"{method}_interp{version}", {"X": x}, "X", interp_method=method, align_corners=align, **sizes)
    if method == "nearest":
        y = same("nearest_interp", {"X": x[:, :1]}, interp_method="nearest", align_corners=False, out_h=8, out_w=8)[0]
        assert np.isinf(y).sum() == 4 and not np.isnan(y).any()


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_samples_at_nan(mode, shim):
    """There is no pixel at NaN; the other samples and the gradients are those of the CPU."""
    x = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
    grid = np.array([[[[NAN, 0.1], [0.2, NAN], [0.3, -0.4], [2.0, 0.0]]]], "float32")
    _, got = runs("grid_sampler", {"X": x, "Grid": grid}, "X", mode=mode, align_corners=True)
    assert np.isfinite(got[0].ravel()[2:]).all()


EMPTY = {
    "matmul": ({"X": np.ones((2, 3, 4)), "Y": np.ones((2, 0, 4))}, "X", {"transpose_Y": True}),
    "batch_fc": ({"Input": np.ones((0, 3, 4)), "W": np.ones((0, 4, 5)), "Bias": np.ones((0, 5))}, "Input", {}),
    "shuffle_channel": ({"X": np.ones((0, 8, 3, 4))}, "X", {"group": 4}),
    "split": ({"X": np.ones((0, 6)), "AxisTensor": np.array([1], "int32")}, "X", {"num": 2}),
    "row_conv": ({"X": np.ones((0, 3, 4)), "Filter": np.ones((2, 4))}, "X", {}),
    "fsp": ({"X": np.ones((2, 3, 4, 0)), "Y": np.ones((2, 2, 4, 0))}, "X", {}),
}


@pytest.mark.filterwarnings("ignore:operator .* has no CUDA kernel")
@pytest.mark.parametrize("op", EMPTY)
def test_operands_without_elements(op, shim):
    ins, grad, attrs = EMPTY[op]
    same(op, ins, grad, **attrs)


def test_rois_near_infinite_corners(shim):
    """An element that no sample of a RoI reads has no effect."""
    x = np.random.default_rng(0).normal(size=(1, 2, 12, 10)).astype("float32")
    x[:, :, 0, 0], x[:, :, -1, -1] = -INF, NAN
    rois = np.array([[3, 3, 7, 8], [2.5, 2, 6, 6], [0, 0, 2, 2]], "float32")
    attrs = {"pooled_height": 3, "pooled_width": 2, "spatial_scale": 1.0, "sampling_ratio": 2}
    found = same("roi_align", {"X": x, "ROIs": rois, "RoisNum": np.array([3], "int32")}, "X", **attrs)[0]
    assert np.isfinite(found[:2]).all() and not np.isfinite(found[2]).all()
