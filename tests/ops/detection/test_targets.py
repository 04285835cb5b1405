"""Proposals, FPN levels and training targets of detectors; values recorded from Paddle 1.8.5."""

import json
from pathlib import Path

import numpy as np
import paddle
import pytest
from case import case, table
from case_values import lod_tensor
from paddle import _ops
from paddle.fluid import core

VALUES = json.loads((Path(__file__).parent / "targets_values.json").read_text())


def wave(*shape, seed=0):
    return np.sin(np.arange(np.prod(shape)) * 0.7 + seed).reshape(shape)


def recorded(name):
    """(values of the outputs, their LoDs)"""
    found = {slot: np.array(v["values"], v["dtype"]).reshape(v["shape"]) for slot, v in VALUES[name].items()}
    return found, {slot: v["lod"] for slot, v in VALUES[name].items() if v["lod"]}


def rows(*values, dtype="float32"):
    return np.array(values, dtype)


# generate_proposals

A, H, W = 2, 3, 4
SCORES, DELTAS = (
    (wave(2, A, H, W) * 0.5 + 0.5).astype("float32"),
    (wave(2, 4 * A, H, W, seed=2) * 0.6).astype("float32"),
)
CENTERS = np.stack(np.meshgrid(np.arange(W) * 8, np.arange(H) * 8), -1)[:, :, None, :]
HALF = np.array([6, 12])[:, None]
ANCHORS = np.concatenate([CENTERS - HALF, CENTERS + HALF], -1).astype("float32")
IMAGES = rows([24, 32, 1.0], [20, 30, 2.0])
PROPOSALS = [SCORES, DELTAS, IMAGES, ANCHORS, np.full_like(ANCHORS, 0.5)]
FEW = {"pre_nms_topN": 12, "post_nms_topN": 5, "nms_thresh": 0.5, "min_size": 3.0, "eta": 1.0}
ALL = {"pre_nms_topN": 0, "post_nms_topN": 0, "nms_thresh": 0.7, "min_size": 1.0, "eta": 0.9}
NONE = {**FEW, "min_size": 100.0}
(FEW_VALUES, FEW_LOD), (ALL_VALUES, ALL_LOD) = recorded("generate_proposals_a"), recorded("generate_proposals_b")
NEAR = {"tol": 1e-5}
test_proposals = table(
    case(
        "generate_proposals",
        PROPOSALS,
        FEW,
        {**FEW_VALUES, "RpnRoisNum": rows(5, 5, dtype="int32")},
        out_lod=FEW_LOD,
        **NEAR,
        dtypes="float64",
    ),
    case("generate_proposals", PROPOSALS, ALL, ALL_VALUES, out_lod=ALL_LOD, **NEAR),
    # Without remaining boxes an image has one proposal of zeros.
    case(
        "generate_proposals",
        PROPOSALS,
        NONE,
        {"RpnRois": np.zeros((2, 4)), "RpnRoiProbs": np.zeros((2, 1))},
        out_lod={"RpnRois": [[0, 1, 2]]},
    ),
    # No limit: all boxes that are large enough.
    case("generate_proposals", PROPOSALS, {**ALL, "nms_thresh": 0.0}, {}),
    case(
        "generate_proposals", [SCORES[:0], DELTAS[:0], IMAGES[:0], *PROPOSALS[3:]], FEW, {"RpnRois": np.zeros((0, 4))}
    ),
    case("generate_proposals", [SCORES, DELTAS[:, :6], *PROPOSALS[2:]], FEW, raises=ValueError, match="4 channels"),
    case("generate_proposals", [*PROPOSALS[:3], ANCHORS[:2], PROPOSALS[4]], FEW, raises=ValueError, match="Anchors"),
    case("generate_proposals", [SCORES.astype("float64"), *PROPOSALS[1:]], FEW, raises=ValueError, match="float32"),
    # With a scale of 1 the second version differs only in ImShape.
    case(
        "generate_proposals_v2",
        [SCORES[:1], DELTAS[:1], IMAGES[:1, :2], *PROPOSALS[3:]],
        FEW,
        {k: v[:5] for k, v in FEW_VALUES.items()},
        **NEAR,
    ),
    case("generate_proposals_v2", [SCORES, DELTAS, IMAGES[:, :2], *PROPOSALS[3:]], {**FEW, "pixel_offset": False}, {}),
    case("generate_proposals_v2", PROPOSALS, FEW, raises=ValueError, match="ImShape"),
)


# FPN levels

FPN = rows([0, 0, 10, 10], [5, 5, 120, 60], [0, 0, 300, 300], [3, 3, 2, 2], [0, 0, 50, 60], [10, 10, 500, 400])
LEVELS = {"min_level": 2, "max_level": 4, "refer_level": 3, "refer_scale": 112}
SHARED = VALUES["distribute_fpn_proposals"]
OF_LEVELS = [np.array(SHARED[f"MultiFpnRois_{i}"]["values"], "float32").reshape(-1, 4) for i in range(3)]
RESTORE = np.array(SHARED["RestoreIndex"]["values"], "int32")[:, None]
COUNTS = [rows(2, 2, dtype="int32"), rows(0, 0, dtype="int32"), rows(0, 2, dtype="int32")]
BEST = [rows(*np.arange(12.0).reshape(3, 4)), rows(*np.arange(20.0, 32.0).reshape(3, 4))]
BY_SCORE = [BEST, [rows([0.3], [0.9], [0.1]), rows([0.5], [0.2], [0.8])]]
test_levels = table(
    case(
        "distribute_fpn_proposals",
        [FPN],
        LEVELS,
        {"MultiFpnRois": OF_LEVELS, "RestoreIndex": RESTORE},
        lod={"FpnRois": [[0, 2, 6]]},
        static=False,
    ),  # a Program must name the outputs
    case(
        "distribute_fpn_proposals",
        [FPN, rows(2, 4, dtype="int32")],
        LEVELS,
        {"MultiFpnRois": OF_LEVELS, "RestoreIndex": RESTORE, "MultiLevelRoIsNum": COUNTS},
        dtypes="float64",
        static=False,
    ),
    case(
        "distribute_fpn_proposals",
        [FPN[:0], rows(0, 0, dtype="int32")],
        LEVELS,
        {"RestoreIndex": np.zeros((0, 1), "int32")},
        static=False,
    ),
    case("distribute_fpn_proposals", [FPN], LEVELS, raises=ValueError, match="LoD"),
    case("distribute_fpn_proposals", [FPN], {**LEVELS, "max_level": 1}, raises=ValueError, match="max_level"),
    case("distribute_fpn_proposals", [FPN], {**LEVELS, "max_level": 2**31 - 1}, raises=MemoryError),
    case(
        "collect_fpn_proposals",
        [*BY_SCORE, [rows(1, 2, dtype="int32"), rows(2, 1, dtype="int32")]],
        {"post_nms_topN": 4},
        {**recorded("collect_fpn_proposals")[0], "RoisNum": rows(2, 2, dtype="int32")},
        dtypes="float64",
    ),
    case(
        "collect_fpn_proposals",
        BY_SCORE,
        {"post_nms_topN": 9},
        {},
        lod=dict.fromkeys(("MultiLevelRois", "MultiLevelScores"), [[0, 0, 3]]),
        out_lod={"FpnRois": [[0, 0, 6]]},
    ),
    case("collect_fpn_proposals", [BEST, BY_SCORE[1][:1]], {"post_nms_topN": 4}, raises=ValueError, match="as many"),
    case("collect_fpn_proposals", BY_SCORE, {"post_nms_topN": -1}, raises=ValueError, match="negative"),
    case(
        "collect_fpn_proposals",
        [*BY_SCORE, [rows(1, 2, dtype="int32"), rows(3, dtype="int32")]],
        {"post_nms_topN": 4},
        raises=ValueError,
        match="same images",
    ),
)


# Training targets

BOXES = rows([2, 2, 14, 12], [10, 6, 30, 20], [0, 0, 5, 5], [4, 4, 20, 16])
CROWD, CLASSES = rows([0], [0], [1], [0], dtype="int32"), rows([3], [1], [2], [4], dtype="int32")
SIZES = rows([24, 32, 1.0], [24, 40, 1.5])
TRUTH = [[0, 3, 4]]
OF_TRUTH = {"GtBoxes": TRUTH, "IsCrowd": TRUTH, "GtLabels": TRUTH, "GtClasses": TRUTH}
GRID = ANCHORS.reshape(-1, 4)
RPN = {
    "rpn_batch_size_per_im": 8,
    "rpn_straddle_thresh": 7.0,
    "rpn_positive_overlap": 0.5,
    "rpn_negative_overlap": 0.3,
    "rpn_fg_fraction": 0.5,
    "use_random": False,
}
RETINA = {"positive_overlap": 0.4, "negative_overlap": 0.1}
ROIS = rows(
    [1, 1, 15, 11], [8, 8, 28, 22], [0, 0, 30, 22], [20, 2, 30, 9], [3, 4, 22, 20], [30, 1, 38, 8], [6, 7, 29, 25]
)
DRAWN = {
    "batch_size_per_im": 4,
    "fg_fraction": 0.5,
    "fg_thresh": 0.5,
    "bg_thresh_hi": 0.5,
    "bg_thresh_lo": 0.0,
    "bbox_reg_weights": [0.1, 0.1, 0.2, 0.2],
    "class_nums": 5,
    "use_random": False,
}
LABELS = [ROIS, CLASSES, CROWD, BOXES, SIZES]
LABELS_LOD = {**OF_TRUTH, "RpnRois": [[0, 4, 7]]}


def lods(names):
    return {name: OF_TRUTH[name] for name in names.split()}


def expected(name, **more):
    values, levels = recorded(name)
    return {"expected": {**values, **more}, "out_lod": levels, **NEAR}


EMPTY = [GRID, BOXES[:0], CROWD[:0], SIZES]
test_targets = table(
    case(
        "rpn_target_assign",
        [GRID, BOXES, CROWD, SIZES],
        RPN,
        lod=lods("GtBoxes IsCrowd"),
        **expected("rpn_target_assign"),
        dtypes="float64",
    ),
    # Without objects all anchors are background.
    case(
        "rpn_target_assign",
        EMPTY,
        RPN,
        {"LocationIndex": np.zeros(0, "int32"), "TargetLabel": np.zeros((16, 1), "int32")},
        lod=dict.fromkeys(("GtBoxes", "IsCrowd"), [[0, 0, 0]]),
        out_lod={"ScoreIndex": [[0, 8, 16]]},
    ),
    case("rpn_target_assign", [GRID, BOXES, CROWD, SIZES], RPN, raises=ValueError, match="must have LoD"),
    case(
        "rpn_target_assign",
        [GRID, BOXES, CROWD[:3], SIZES],
        RPN,
        raises=ValueError,
        match="IsCrowd",
        lod={"GtBoxes": TRUTH, "IsCrowd": [[0, 3, 3]]},
    ),
    case(
        "rpn_target_assign",
        [GRID, BOXES, CROWD, SIZES[:1]],
        RPN,
        raises=ValueError,
        match="ImInfo",
        lod=lods("GtBoxes IsCrowd"),
    ),
    case(
        "retinanet_target_assign",
        [GRID, BOXES, CLASSES, CROWD, SIZES],
        RETINA,
        lod=lods("GtBoxes GtLabels IsCrowd"),
        **expected("retinanet_target_assign"),
        dtypes="float64",
    ),
    case(
        "retinanet_target_assign",
        [GRID, BOXES[:0], CLASSES[:0], CROWD[:0], SIZES],
        RETINA,
        {"ForegroundNumber": np.ones((2, 1), "int32")},
        lod=dict.fromkeys(("GtBoxes", "GtLabels", "IsCrowd"), [[0, 0, 0]]),
    ),
    case(
        "generate_proposal_labels",
        LABELS,
        DRAWN,
        lod=LABELS_LOD,
        **expected("generate_proposal_labels"),
        dtypes="float64",
    ),
    # Proposals without objects, and an image without proposals.
    case(
        "generate_proposal_labels",
        [ROIS, CLASSES[:0], CROWD[:0], BOXES[:0], SIZES],
        DRAWN,
        {"LabelsInt32": np.zeros((4, 1), "int32"), "BboxTargets": np.zeros((4, 20)), "MaxOverlapWithGT": np.zeros(4)},
        lod={"RpnRois": [[0, 7, 7]], **dict.fromkeys(("GtClasses", "IsCrowd", "GtBoxes"), [[0, 0, 0]])},
        out_lod={"Rois": [[0, 4, 4]]},
    ),
    case(
        "generate_proposal_labels",
        [*LABELS, np.zeros(7, "float32")],
        {**DRAWN, "is_cascade_rcnn": True, "is_cls_agnostic": True},
        {},
        lod=LABELS_LOD,
        out_lod={"Rois": [[0, 6, 10]]},
    ),
    case(
        "generate_proposal_labels",
        LABELS,
        {**DRAWN, "class_nums": 2},
        raises=ValueError,
        match="below class_nums",
        lod=LABELS_LOD,
    ),
    case(
        "generate_proposal_labels",
        LABELS,
        {**DRAWN, "bbox_reg_weights": [1.0]},
        raises=ValueError,
        match="4 numbers",
        lod=LABELS_LOD,
    ),
    case(
        "generate_proposal_labels",
        LABELS,
        {**DRAWN, "class_nums": 2**30},
        raises=(MemoryError, ValueError),
        lod=LABELS_LOD,
    ),
)


SEGMENTS = rows(
    [2, 2],
    [14, 3],
    [12, 12],
    [3, 10],
    [10, 6],
    [30, 8],
    [20, 20],
    [12, 15],
    [18, 15],
    [18, 19],
    [12, 19],
    [0, 0],
    [5, 0],
    [5, 5],
    [4, 4],
    [20, 5],
    [18, 16],
    [6, 14],
)
SEGMENTS_LOD = [[0, 3, 4], [0, 1, 3, 4, 5], [0, 4, 7, 11, 14, 18]]
MASKED = [
    SIZES,
    CLASSES,
    CROWD,
    SEGMENTS,
    rows([1, 1, 15, 11], [8, 8, 28, 22], [20, 2, 30, 9], [3, 4, 33, 26], [4, 4, 40, 20]),
    rows([3], [1], [0], [0], [0], dtype="int32"),
]
MASKED_LOD = {
    "GtClasses": TRUTH,
    "IsCrowd": TRUTH,
    "GtSegms": SEGMENTS_LOD,
    "Rois": [[0, 3, 5]],
    "LabelsInt32": [[0, 3, 5]],
}
GRIDS = {"num_classes": 4, "resolution": 6}
test_masks = table(
    case("generate_mask_labels", MASKED, GRIDS, lod=MASKED_LOD, **expected("generate_mask_labels")),
    case(
        "generate_mask_labels", MASKED, {**GRIDS, "num_classes": 3}, raises=ValueError, match="class 3", lod=MASKED_LOD
    ),
    case("generate_mask_labels", MASKED, {**GRIDS, "resolution": 1 << 20}, raises=MemoryError, lod=MASKED_LOD),
    case(
        "generate_mask_labels",
        MASKED,
        GRIDS,
        raises=ValueError,
        match="3 levels",
        lod={**MASKED_LOD, "GtSegms": [[0, 18]]},
    ),
    case(
        "generate_mask_labels",
        [*MASKED[:3], SEGMENTS * 1e8, *MASKED[4:]],
        GRIDS,
        raises=MemoryError,
        match="outline",
        lod=MASKED_LOD,
    ),
    case(
        "generate_mask_labels",
        [*MASKED[:2], CROWD * 0 + 1, *MASKED[3:]],
        GRIDS,
        raises=ValueError,
        match="not a crowd",
        lod=MASKED_LOD,
    ),
)


@pytest.mark.parametrize("seed", [1, 2])
def test_draws_repeat_by_seed(seed):
    def draw():
        boxes, crowd = (core.VarBase(lod_tensor(v, TRUTH)) for v in (BOXES, CROWD))
        drawn = {**RPN, "use_random": True}
        out = _ops.rpn_target_assign(core.VarBase(GRID), boxes, crowd, core.VarBase(SIZES), **drawn)
        return out[1].numpy().tolist()

    paddle.seed(seed)
    first, second = draw(), draw()
    paddle.seed(seed)
    assert (draw(), draw()) == (first, second)
    assert first != second
    assert len(first) == 16


def test_predictions_of_drawn_anchors():
    """The layer gathers the predictions of the sampled anchors of all images."""
    boxes, crowd = (core.VarBase(lod_tensor(v, TRUTH)) for v in (BOXES, CROWD))
    pred, scores = wave(2, 24, 4).astype("float32"), wave(2, 24, 1, seed=3).astype("float32")
    given = [core.VarBase(v) for v in (pred, scores, GRID, GRID)]
    options = {k: v for k, v in RPN.items() if k != "use_random"}
    found = paddle.fluid.layers.rpn_target_assign(
        *given, boxes, crowd, core.VarBase(SIZES), use_random=False, **options
    )
    drawn = recorded("rpn_target_assign")[0]
    np.testing.assert_array_equal(found[0].numpy(), scores.reshape(-1, 1)[drawn["ScoreIndex"]])
    np.testing.assert_array_equal(found[1].numpy(), pred.reshape(-1, 4)[drawn["LocationIndex"]])
