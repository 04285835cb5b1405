"""Pooling of regions of interest; values recorded from Paddle 1.8.5."""

import json
from pathlib import Path

import numpy as np
import pytest
from case import apart, case, table
from paddle import _ops
from paddle.fluid import core

VALUES = json.loads((Path(__file__).parent / "rois_values.json").read_text())


def wave(*shape, seed=0, dtype="float64"):
    return np.sin(np.arange(np.prod(shape)) * 0.7 + seed).reshape(shape).astype(dtype)


def recorded(name, **shapes):
    return {slot: np.array(VALUES[name][slot]).reshape(shape) for slot, shape in shapes.items()}


X, PLANES = wave(2, 3, 5, 6), wave(2, 12, 5, 6)
ROIS = np.array([[0.5, 1.0, 6.0, 7.5], [2.0, 2.0, 3.0, 3.0], [-4.0, -3.0, 30.0, 2.0], [4.0, 6.0, 10.5, 9.0]])
LOD = {"ROIs": [[0, 1, 4]]}
COUNT = np.array([1, 3], dtype="int32")
BINS = {"spatial_scale": 0.5, "pooled_height": 2, "pooled_width": 3}
OUT = (4, 3, 2, 3)
NEAR = {"tol": 1e-6}  # recorded with 7 digits

MAXIMA = {**recorded("roi_pool", Out=OUT), "Argmax": np.array(VALUES["roi_pool"]["Argmax"]).reshape(OUT)}
test_roi_pool = table(
    case("roi_pool", [X, ROIS], BINS, MAXIMA, lod=LOD, **NEAR, dtypes="float32"),
    case("roi_pool", [X, ROIS, COUNT], BINS, MAXIMA, **NEAR),
    case("roi_pool", [apart(2, 2, 5, 6), ROIS, COUNT], BINS, grad="X"),
    case("roi_pool", [X[:, :, :, :0], ROIS, COUNT], BINS, {"Out": np.zeros(OUT)}),
    case("roi_pool", [X, ROIS], BINS, raises=ValueError, match="LoD"),
    case("roi_pool", [X, ROIS, COUNT[:1]], BINS, raises=ValueError, match="divide the 4 rows"),
    case("roi_pool", [X, ROIS, np.array([5, -1], "int32")], BINS, raises=ValueError, match="not be negative"),
    case("roi_pool", [X, ROIS[:, :3], COUNT], BINS, raises=ValueError, match="number of RoIs, 4"),
    case("roi_pool", [X, ROIS, COUNT], {"pooled_height": 0}, raises=IndexError, match="height"),
    case("roi_pool", [X, ROIS, COUNT], {"pooled_height": 1 << 30, "pooled_width": 1 << 30}, raises=MemoryError),
    case("roi_pool", [X, ROIS.astype("float32"), COUNT], BINS, raises=ValueError, match="float64"),
)

test_roi_align = table(
    case("roi_align", [X, ROIS], BINS, recorded("roi_align", Out=OUT), grad="X", lod=LOD, **NEAR, dtypes="float32"),
    case(
        "roi_align",
        [X, ROIS, COUNT],
        {**BINS, "sampling_ratio": 2},
        recorded("roi_align_2", Out=OUT),
        grad="X",
        **NEAR,
        dtypes="float32",
    ),
    case("roi_align", [X, ROIS, COUNT], {**BINS, "aligned": True}, grad="X"),
    # Aligned RoIs with zero width or height have no samples.
    case(
        "roi_align",
        [X[:1], np.array([[2.0, 2.0, 2.0, 4.0], [5.0, 5.0, 1.0, 1.0]]), COUNT[:1] + 1],
        {"aligned": True},
        np.zeros((2, 3, 1, 1)),
    ),
    # Far outside, and so large that few samples are within the map.
    case(
        "roi_align",
        [X[:1], np.array([[-1e9, -1e9, 1e9, 1e9], [1e8, 1e8, 2e8, 2e8]]), COUNT[:1] + 1],
        {"pooled_width": 2},
        {},
    ),
    case("roi_align", [X[:, :, :0], ROIS, COUNT], BINS, np.zeros(OUT)),
    case("roi_align", [X, ROIS[:0], COUNT * 0], BINS, np.zeros((0, 3, 2, 3))),
    case("roi_align", [X, ROIS, COUNT], {"sampling_ratio": 1 << 30}, raises=MemoryError, match="samples"),
    case("roi_align", [X, ROIS, COUNT], {"spatial_scale": 0.0}, raises=ValueError, match="scale"),
    case("roi_align", [X[0], ROIS, COUNT], BINS, raises=ValueError, match="4 dimensions"),
)


@pytest.mark.parametrize("op", ["roi_pool", "roi_align", "prroi_pool"])
def test_integers(op):
    """Bins of whole elements: the maximum, an element, the truncated mean."""
    x, rois = np.arange(16, dtype="int32").reshape(1, 1, 4, 4), np.array([[0, 0, 2, 2]], "int32")
    counts = core.VarBase(np.array([1], "int64" if op == "prroi_pool" else "int32"))
    out = getattr(_ops, op)(core.VarBase(x), core.VarBase(rois), counts, pooled_height=1, pooled_width=1)
    out = out[0] if isinstance(out, tuple) else out
    assert str(out.numpy().dtype) == "int32"
    assert out.numpy().ravel().tolist() == {"roi_pool": [10], "roi_align": [2], "prroi_pool": [5]}[op]


PS = {**BINS, "output_channels": 2}
test_psroi_pool = table(
    case(
        "psroi_pool",
        [PLANES, ROIS],
        PS,
        recorded("psroi_pool", Out=(4, 2, 2, 3)),
        grad="X",
        lod=LOD,
        **NEAR,
        dtypes="float32",
    ),
    case("psroi_pool", [PLANES, ROIS[:0]], PS, np.zeros((0, 2, 2, 3)), lod={"ROIs": [[0, 0, 0]]}),
    case("psroi_pool", [X, ROIS], PS, raises=ValueError, match="12 channels", lod=LOD),
    case("psroi_pool", [PLANES, ROIS], {**PS, "output_channels": 1}, raises=ValueError, match="above 1", lod=LOD),
    case("psroi_pool", [PLANES, ROIS], PS, raises=ValueError, match="the batch has 2", lod={"ROIs": [[0, 4]]}),
)

test_prroi_pool = table(
    case(
        "prroi_pool",
        [X, ROIS],
        BINS,
        recorded("prroi_pool", Out=OUT),
        grad="X ROIs",
        lod=LOD,
        **NEAR,
        grad_tol=2e-5,
        dtypes="float32",
    ),
    case("prroi_pool", [X, ROIS + 0.1, COUNT.astype("int64")], BINS, grad="X ROIs", grad_tol=2e-5),
    # RoIs with zero area have an average of 0.
    case(
        "prroi_pool",
        [X[:1], np.array([[3.0, 1.0, 3.0, 4.0], [5.0, 4.0, 2.0, 1.0]]), np.array([2])],
        BINS,
        np.zeros((2, 3, 2, 3)),
    ),
    case("prroi_pool", [X[:1], np.array([[1e9, 1e9, 2e9, 2e9]]), np.array([1])], BINS, np.zeros((1, 3, 2, 3))),
    case("prroi_pool", [X, ROIS, np.array([4])], BINS, raises=ValueError, match="each of the 2 images"),
)

DEFORM = {
    **BINS,
    "no_trans": False,
    "output_dim": 2,
    "group_size": [2, 3],
    "part_size": [2, 3],
    "sample_per_part": 2,
    "trans_std": 0.3,
}
TRANS = wave(4, 2, 2, 3, seed=1)
test_deformable = table(
    case(
        "deformable_psroi_pooling",
        [PLANES, ROIS, TRANS],
        DEFORM,
        recorded("deformable_psroi_pooling", TopCount=(4, 2, 2, 3), Output=(4, 2, 2, 3)),
        grad="Input Trans",
        grad_of="Output",
        lod=LOD,
        **NEAR,
        dtypes="float32",
    ),
    # Two classes of channels, fewer parts than bins.
    case(
        "deformable_psroi_pooling",
        [PLANES, ROIS, wave(4, 4, 1, 2, seed=2)],
        {**DEFORM, "output_dim": 12, "group_size": [1, 1], "part_size": [1, 2]},
        grad="Input Trans",
        grad_of="Output",
        lod=LOD,
    ),
    case(
        "deformable_psroi_pooling",
        [PLANES, ROIS, TRANS],
        {**DEFORM, "no_trans": True},
        grad="Input",
        grad_of="Output",
        lod=LOD,
    ),
    case(
        "deformable_psroi_pooling",
        [PLANES, ROIS, TRANS],
        {**DEFORM, "part_size": [3, 3]},
        raises=ValueError,
        match="part_size",
        lod=LOD,
    ),
    case(
        "deformable_psroi_pooling",
        [PLANES, ROIS, TRANS],
        {**DEFORM, "output_dim": 3},
        raises=ValueError,
        match="more than the 12 channels",
        lod=LOD,
    ),
    case(
        "deformable_psroi_pooling",
        [PLANES, ROIS, TRANS],
        {**DEFORM, "group_size": [2]},
        raises=ValueError,
        match="group_size",
        lod=LOD,
    ),
    case("deformable_psroi_pooling", [PLANES, ROIS, TRANS[:3]], DEFORM, raises=ValueError, match="4 RoIs", lod=LOD),
    case(
        "deformable_psroi_pooling",
        [PLANES, ROIS, wave(4, 6, 2, 3)],
        DEFORM,
        raises=ValueError,
        match="must be divisible by",
        lod=LOD,
    ),
)

QUADS = np.array([[1, 1, 9, 2, 8, 8, 2, 9], [0, 0, 10, 0, 10, 8, 0, 8], [3, -2, 14, 3, 9, 12, -1, 6.0]])
QUAD_LOD = {"ROIs": [[0, 1, 3]]}
SIZE = {"spatial_scale": 0.5, "transformed_height": 3, "transformed_width": 4}
MASK = np.array(VALUES["roi_perspective_transform"]["Mask"], "int32").reshape(3, 1, 3, 4)
test_perspective = table(
    case(
        "roi_perspective_transform",
        [wave(2, 2, 5, 6, dtype="float32"), QUADS.astype("float32")],
        SIZE,
        {**recorded("roi_perspective_transform", Out=(3, 2, 3, 4), TransformMatrix=(3, 9)), "Mask": MASK},
        lod=QUAD_LOD,
        out_lod={"Out": [[0, 1, 3]]},
        tol=1e-4,
    ),
    case(
        "roi_perspective_transform",
        [wave(2, 2, 5, 6), QUADS],
        SIZE,
        {"Mask": MASK},
        grad="X",
        grad_of="Out",
        lod=QUAD_LOD,
    ),
    # All corners at one point.
    case("roi_perspective_transform", [wave(1, 1, 5, 6), np.ones((1, 8))], SIZE, {}, lod={"ROIs": [[0, 1]]}),
    case(
        "roi_perspective_transform", [wave(2, 2, 5, 6), QUADS[:, :4]], SIZE, raises=ValueError, match="8", lod=QUAD_LOD
    ),
    case(
        "roi_perspective_transform",
        [wave(2, 2, 5, 6), QUADS],
        {**SIZE, "transformed_width": -1},
        raises=ValueError,
        match="width",
        lod=QUAD_LOD,
    ),
)
