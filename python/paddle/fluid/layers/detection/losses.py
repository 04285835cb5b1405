"""Matching, losses and mean average precision of detectors, fluid.layers.detection."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.dtypes import VarType
from paddle._basics.element_types import FLOATS
from paddle._dispatch.append import named
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variables
from paddle.fluid.layers.loss import softmax_with_cross_entropy
from paddle.fluid.layers.nn.manipulation import flatten, reshape
from paddle.fluid.layers.nn.math import smooth_l1
from paddle.vision.ops import yolo_box as _yolo_box
from paddle.vision.ops import yolo_loss

from .priors import box_coder, iou_similarity

__all__ = [
    "bipartite_match",
    "sigmoid_focal_loss",
    "ssd_loss",
    "target_assign",
    "yolo_box",
    "yolov3_loss",
]


def _drop_none(**attrs):
    """The attributes that are not None."""
    return {name: value for name, value in attrs.items() if value is not None}


def bipartite_match(dist_matrix, match_type=None, dist_threshold=None, name=None):
    """A bipartite matching of rows and columns, greedy by similarity.

    Args:
        dist_matrix (Variable): similarities, [rows, columns], float32 or float64; with LoD the
            rows of each image are matched separately.
        match_type (str): "bipartite" (also None), or "per_prediction": an unmatched column gets its most similar row
        dist_threshold (float): if their similarity is at least this (None: 0.5).
        name (str): prefix of the outputs' names.

    Returns:
        (int32 [images, columns], the row of each column within its image, or -1; the similarity of both, or 0).

    Raises:
        ValueError: for another `match_type`.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> rows, likeness = fluid.layers.bipartite_match(paddle.to_tensor([[0.5, 0.25, 0.0], [0.75, 0.5, 0.0]]))
        >>> rows.numpy().tolist(), likeness.numpy().tolist()
        ([[1, 0, -1]], [[0.75, 0.25, 0.0]])
    """
    attrs = _drop_none(match_type=match_type, dist_threshold=dist_threshold)
    return named(name, _ops.bipartite_match, dist_matrix, **attrs)


def target_assign(input, matched_indices, negative_indices=None, mismatch_value=None, name=None):  # noqa: A002
    """For each column the row that `bipartite_match` assigned to it.

    Args:
        input (Variable): [rows, P, K] with LoD by images, int32 or float32; column j reads index j modulo P.
        matched_indices (Variable): int32 [images, columns], rows within their images or -1.
        negative_indices (Variable): int32 [n, 1] with LoD by images: columns that are background.
        mismatch_value (int): value of unmatched columns (None: 0).
        name (str): prefix of the outputs' names.

    Returns:
        ([images, columns, K], weights float32 [images, columns, 1]: 1 for matched columns and background).

    Raises:
        ValueError: for a missing LoD, or invalid indices.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [None, 1, 4], lod_level=1)
        >>> out, weight = fluid.layers.target_assign(x, fluid.data("rows", [None, 20], "int32"))
        >>> out.shape, weight.shape
        ((-1, 20, 4), (-1, 20, 1))
    """
    attrs = _drop_none(mismatch_value=mismatch_value)
    return named(name, _ops.target_assign, input, matched_indices, negative_indices, **attrs)


def _stop_gradient(x):
    x.stop_gradient = True
    return x


def _matrix(x):
    """[N, boxes, K] as [N * boxes, K]."""
    return flatten(x, axis=2)


def _labels(x):
    return _stop_gradient(_matrix(_ops.cast(x, in_dtype=x.dtype, out_dtype=VarType.INT64)))


def ssd_loss(
    location,
    confidence,
    gt_box,
    gt_label,
    prior_box,
    prior_box_var=None,
    background_label=0,
    overlap_threshold=0.5,
    neg_pos_ratio=3.0,
    neg_overlap=0.5,
    loc_loss_weight=1.0,
    conf_loss_weight=1.0,
    match_type="per_prediction",
    mining_type="max_negative",
    normalize=True,
    sample_size=None,
):
    """The SSD loss: smooth L1 of matched prior boxes' offsets, and cross entropy of the classes of matched boxes and
    of the hardest negatives.

    Args:
        location (Variable): predicted offsets from the prior boxes, [N, M, 4], float32.
        confidence (Variable): scores, [N, M, classes].
        gt_box (Variable): ground truth boxes, [objects, 4], with LoD by images.
        gt_label (Variable): their classes, int32 [objects, 1], with the same LoD.
        prior_box (Variable): [M, 4].
        prior_box_var (Variable|list): [M, 4], or four numbers.
        background_label (int): the background class.
        overlap_threshold (float): minimum overlap of a matched prior box ("per_prediction").
        neg_pos_ratio (float): number of negatives per matched box.
        neg_overlap (float): maximum overlap of negatives with any object.
        loc_loss_weight, conf_loss_weight (float): weights of the two terms.
        match_type (str): as of `bipartite_match`.
        mining_type (str): "max_negative".
        normalize (bool): divide by the number of matched prior boxes.
        sample_size (int): ignored by this way of mining.

    Returns:
        Variable: [N, 1].

    Raises:
        ValueError: for another `mining_type`.
        TypeError: if `prior_box_var` is neither Variable nor list.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> prior, var = (fluid.data(n, [10, 4]) for n in ("prior", "var"))
        >>> loc, scores = fluid.data("loc", [None, 10, 4]), fluid.data("scores", [None, 10, 3])
        >>> boxes = fluid.data("boxes", [None, 4], lod_level=1)
        >>> labels = fluid.data("labels", [None, 1], "int32", lod_level=1)
        >>> fluid.layers.ssd_loss(loc, scores, boxes, labels, prior, var).shape
        (-1, 1)
    """
    if mining_type != "max_negative":
        raise ValueError(f"Only support mining_type == max_negative now, got {mining_type}.")
    images_and_boxes = _stop_gradient(_ops.slice(_ops.shape(confidence), axes=[0], starts=[0], ends=[2]))
    rows, likeness = bipartite_match(iou_similarity(gt_box, prior_box), match_type, overlap_threshold)
    # Cross entropy of all boxes, from which the hardest negatives are chosen.
    gt_label = _stop_gradient(reshape(gt_label, shape=(0,) * (len(gt_label.shape) - 1) + (-1, 1)))
    classes, _ = target_assign(gt_label, rows, mismatch_value=background_label)
    confidence = _matrix(confidence)
    entropy = softmax_with_cross_entropy(confidence, _labels(classes))
    entropy = _stop_gradient(reshape(entropy, shape=(-1, 0), actual_shape=images_and_boxes))
    negative, rows = _ops.mine_hard_examples(
        ClsLoss=entropy,
        MatchIndices=rows,
        MatchDist=likeness,
        neg_pos_ratio=neg_pos_ratio,
        neg_dist_threshold=neg_overlap,
        mining_type=mining_type,
        **_drop_none(sample_size=sample_size),
    )
    # Targets and their weights.
    encoded = box_coder(prior_box, prior_box_var, gt_box, code_type="encode_center_size")
    places, is_object = target_assign(encoded, rows, mismatch_value=background_label)
    classes, counts = target_assign(gt_label, rows, negative_indices=negative, mismatch_value=background_label)
    of_classes = softmax_with_cross_entropy(confidence, _labels(classes)) * _stop_gradient(_matrix(counts))
    is_object = _stop_gradient(_matrix(is_object))
    of_places = smooth_l1(_matrix(location), _stop_gradient(_matrix(places))) * is_object
    loss = conf_loss_weight * of_classes + loc_loss_weight * of_places
    loss = reshape(loss, shape=(-1, 0), actual_shape=images_and_boxes)
    loss = _ops.reduce_sum(loss, dim=[1], keep_dim=True)
    return loss / _ops.reduce_sum(is_object, reduce_all=True) if normalize else loss


def yolov3_loss(
    x,
    gt_box,
    gt_label,
    anchors,
    anchor_mask,
    class_num,
    ignore_thresh,
    downsample_ratio,
    gt_score=None,
    use_label_smooth=True,
    name=None,
    scale_x_y=1.0,
):
    """The loss of one output of YOLOv3; see `paddle.vision.ops.yolo_loss` for the arguments.

    Returns:
        Variable: [N].

    Raises:
        TypeError: for arguments of other types.
    """
    for text, value in (("x", x), ("gt_box", gt_box), ("gt_label", gt_label)):
        check_type(value, text, Variable, "yolov3_loss")
    check_type(gt_score, "gt_score", (Variable, type(None)), "yolov3_loss")
    check_type(class_num, "class_num", int, "yolov3_loss")
    return yolo_loss(
        x,
        gt_box,
        gt_label,
        anchors,
        anchor_mask,
        class_num,
        ignore_thresh,
        downsample_ratio,
        gt_score,
        use_label_smooth,
        name,
        scale_x_y,
    )


def yolo_box(x, img_size, anchors, class_num, conf_thresh, downsample_ratio, clip_bbox=True, name=None, scale_x_y=1.0):
    """The boxes of one output of YOLOv3; see `paddle.vision.ops.yolo_box` for the arguments.

    Returns:
        (boxes [N, M, 4], scores [N, M, class_num]).

    Raises:
        TypeError: for arguments of other types.
    """
    for text, value in (("x", x), ("img_size", img_size)):
        check_type(value, text, Variable, "yolo_box")
    check_type(class_num, "class_num", int, "yolo_box")
    return _yolo_box(x, img_size, anchors, class_num, conf_thresh, downsample_ratio, clip_bbox, name, scale_x_y)


def detection_map(
    detect_res,
    label,
    class_num,
    background_label=0,
    overlap_threshold=0.3,
    evaluate_difficult=True,
    has_state=None,
    input_states=None,
    out_states=None,
    ap_version="integral",
):
    """The mean average precision of detections; `fluid.metrics.DetectionMAP` manages the states.

    Args:
        detect_res (Variable): [detections, 6], (class, score, box), with LoD by images.
        label (Variable): [objects, 6], (class, difficult, box), or [objects, 5] without the second; with LoD.
        class_num (int): number of classes.
        background_label (int): ignored, as in Paddle.
        overlap_threshold (float): minimum overlap of a true positive.
        evaluate_difficult (bool): include difficult objects.
        has_state (Variable): int32 [1]; 0: ignore `input_states`.
        input_states, out_states (list of Variable): counts of objects, true and false positives so far.
        ap_version (str): "integral" or "11point".

    Returns:
        Variable: [1].
    """
    states = dict(zip(("PosCount", "TruePos", "FalsePos"), input_states or (), strict=False))
    outs = dict(zip(("AccumPosCount", "AccumTruePos", "AccumFalsePos"), out_states or (), strict=False))
    return _ops.detection_map(
        DetectRes=detect_res,
        Label=label,
        **_drop_none(HasState=has_state),
        **states,
        **outs,
        overlap_threshold=overlap_threshold,
        evaluate_difficult=evaluate_difficult,
        ap_type=ap_version,
        class_num=class_num,
    )[-1]


def sigmoid_focal_loss(x: Any, label: Any, fg_num: Any, gamma: float = 2.0, alpha: float = 0.25) -> Any:
    """The focal loss (Lin et al., 2017) of every class of each sample, divided by the number of foreground samples.

    Args:
        x (Variable): scores, [N, classes], float32 or float64.
        label (Variable): int32 [N, 1]: 1 to classes, 0 for the background, -1 for ignored samples.
        fg_num (Variable): int32 [1].
        gamma (float): the focusing exponent: larger values reduce the weight of easy samples.
        alpha (float): the weight of the label's class; the others have 1 - alpha.

    Returns:
        Variable: of the shape of `x`.
    """
    check_variables("sigmoid_focal_loss", FLOATS, x=x)
    check_variables("sigmoid_focal_loss", ["int32"], label=label, fg_num=fg_num)
    return _ops.sigmoid_focal_loss(x, label, fg_num, gamma=gamma, alpha=alpha)
