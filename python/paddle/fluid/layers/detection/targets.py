"""Training targets of detectors: anchors and proposals assigned to ground truth, fluid.layers.detection."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.element_types import FLOATS
from paddle._programs.variable_checks import check_variable_and_dtype

__all__ = ["generate_mask_labels", "generate_proposal_labels", "retinanet_target_assign", "rpn_target_assign"]


def _check(where: str, dtypes: Any, **variables: Any) -> None:
    for name, value in variables.items():
        check_variable_and_dtype(value, name, dtypes, where)


def _stop_gradients(outputs: Any) -> Any:
    """Marks targets as constants without gradient."""
    for value in outputs:
        value.stop_gradient = True
    return outputs


def _gather_rows(values: Any, width: int, index: Any) -> Any:
    return _ops.gather(_ops.reshape2(values, shape=[-1, width]), index)


def rpn_target_assign(
    bbox_pred: Any,
    cls_logits: Any,
    anchor_box: Any,
    anchor_var: Any,
    gt_boxes: Any,
    is_crowd: Any,
    im_info: Any,
    rpn_batch_size_per_im: int = 256,
    rpn_straddle_thresh: float = 0.0,
    rpn_fg_fraction: float = 0.5,
    rpn_positive_overlap: float = 0.7,
    rpn_negative_overlap: float = 0.3,
    use_random: bool = True,
) -> Any:
    """Samples anchors for the training of a region proposal network: predictions and targets.

    An anchor is foreground if its overlap with an object is at least rpn_positive_overlap, or the largest of all
    anchors, and background if no overlap reaches rpn_negative_overlap.

    Args:
        bbox_pred (Variable): predicted deltas, [N, M, 4], float32 or float64.
        cls_logits (Variable): predicted scores, [N, M, 1].
        anchor_box (Variable): [M, 4].
        anchor_var (Variable): [M, 4]; ignored.
        gt_boxes (Variable): ground truth boxes, [G, 4], with a LoD.
        is_crowd (Variable): int32 [G, 1], with the same LoD: 1 for boxes to ignore.
        im_info (Variable): [N, 3]: height, width and scale of each image.
        rpn_batch_size_per_im (int): number of sampled anchors per image.
        rpn_straddle_thresh (float): maximum distance of an anchor beyond the image; negative: no limit.
        rpn_fg_fraction (float): maximum fraction of foreground anchors.
        rpn_positive_overlap, rpn_negative_overlap (float): see above.
        use_random (bool): sample at random (`paddle.seed` makes it repeatable), or take the first anchors.

    Returns:
        tuple: predicted scores [F + B, 1] and deltas [F, 4], targets of the scores (int32 [F + B, 1]) and of the deltas
        [F, 4], weights of the deltas [F, 4]: 0 for padding.

    Raises:
        TypeError: for variables of another type.
        ValueError: for incompatible shapes or LoDs.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> pred, logits = fluid.data("pred", [None, 36, 4]), fluid.data("logits", [None, 36, 1])
        >>> anchors, variances = fluid.data("anchors", [36, 4]), fluid.data("variances", [36, 4])
        >>> boxes, crowd = fluid.data("boxes", [None, 4], lod_level=1), fluid.data("crowd", [None, 1], "int32", 1)
        >>> info = fluid.data("info", [None, 3])
        >>> found = fluid.layers.rpn_target_assign(pred, logits, anchors, variances, boxes, crowd, info)
        >>> [v.shape for v in found]
        [(-1, 1), (-1, 4), (-1, 1), (-1, 4), (-1, 4)]
    """
    where = "rpn_target_assign"
    _check(where, FLOATS, bbox_pred=bbox_pred, cls_logits=cls_logits, anchor_box=anchor_box, anchor_var=anchor_var)
    _check(where, FLOATS, gt_boxes=gt_boxes, im_info=im_info)
    _check(where, ["int32"], is_crowd=is_crowd)
    location, score, target, label, weight = _stop_gradients(
        _ops.rpn_target_assign(
            anchor_box,
            gt_boxes,
            is_crowd,
            im_info,
            rpn_batch_size_per_im=rpn_batch_size_per_im,
            rpn_straddle_thresh=rpn_straddle_thresh,
            rpn_positive_overlap=rpn_positive_overlap,
            rpn_negative_overlap=rpn_negative_overlap,
            rpn_fg_fraction=rpn_fg_fraction,
            use_random=use_random,
        )
    )
    return _gather_rows(cls_logits, 1, score), _gather_rows(bbox_pred, 4, location), label, target, weight


def retinanet_target_assign(
    bbox_pred: Any,
    cls_logits: Any,
    anchor_box: Any,
    anchor_var: Any,
    gt_boxes: Any,
    gt_labels: Any,
    is_crowd: Any,
    im_info: Any,
    num_classes: int = 1,
    positive_overlap: float = 0.5,
    negative_overlap: float = 0.4,
) -> Any:
    """As rpn_target_assign, without sampling and with object classes: for RetinaNet.

    Args:
        bbox_pred (Variable): predicted deltas, [N, M, 4], float32 or float64.
        cls_logits (Variable): predicted scores, [N, M, num_classes].
        anchor_box (Variable): [M, 4].
        anchor_var (Variable): [M, 4]; ignored.
        gt_boxes (Variable): ground truth boxes, [G, 4], with a LoD.
        gt_labels (Variable): int32 [G, 1], their classes from 1 on, with the same LoD.
        is_crowd (Variable): int32 [G, 1], with the same LoD: 1 for boxes to ignore.
        im_info (Variable): [N, 3]: height, width and scale of each image.
        num_classes (int): number of classes without background.
        positive_overlap, negative_overlap (float): minimum overlap of foreground, maximum of background.

    Returns:
        tuple: predicted scores [F + B, num_classes] and deltas [F, 4], classes (int32 [F + B, 1], 0 for background),
        targets of the deltas [F, 4] and their weights [F, 4], and int32 [N, 1]: one more than each image's F.

    Raises:
        TypeError: for variables of another type.
        ValueError: for incompatible shapes or LoDs.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> pred, logits = fluid.data("pred", [1, 36, 4]), fluid.data("logits", [1, 36, 10])
        >>> anchors, variances = fluid.data("anchors", [36, 4]), fluid.data("variances", [36, 4])
        >>> boxes = fluid.data("boxes", [None, 4], lod_level=1)
        >>> labels, crowd = (fluid.data(n, [None, 1], "int32", 1) for n in ("labels", "crowd"))
        >>> info = fluid.data("info", [1, 3])
        >>> found = fluid.layers.retinanet_target_assign(
        ...     pred, logits, anchors, variances, boxes, labels, crowd, info, num_classes=10)
        >>> [v.shape for v in found]
        [(-1, 10), (-1, 4), (-1, 1), (-1, 4), (-1, 4), (-1, 1)]
    """
    where = "retinanet_target_assign"
    _check(where, FLOATS, bbox_pred=bbox_pred, cls_logits=cls_logits, anchor_box=anchor_box, anchor_var=anchor_var)
    _check(where, FLOATS, gt_boxes=gt_boxes, im_info=im_info)
    _check(where, ["int32"], gt_labels=gt_labels, is_crowd=is_crowd)
    location, score, target, label, weight, count = _stop_gradients(
        _ops.retinanet_target_assign(
            anchor_box,
            gt_boxes,
            gt_labels,
            is_crowd,
            im_info,
            positive_overlap=positive_overlap,
            negative_overlap=negative_overlap,
        )
    )
    scores = _gather_rows(cls_logits, num_classes, score)
    return scores, _gather_rows(bbox_pred, 4, location), label, target, weight, count


def generate_proposal_labels(
    rpn_rois: Any,
    gt_classes: Any,
    is_crowd: Any,
    gt_boxes: Any,
    im_info: Any,
    batch_size_per_im: int = 256,
    fg_fraction: float = 0.25,
    fg_thresh: float = 0.25,
    bg_thresh_hi: float = 0.5,
    bg_thresh_lo: float = 0.0,
    bbox_reg_weights: Any = [0.1, 0.1, 0.2, 0.2],  # noqa: B006 (2.0.2's signature)
    class_nums: Any = None,
    use_random: bool = True,
    is_cls_agnostic: bool = False,
    is_cascade_rcnn: bool = False,
    max_overlap: Any = None,
    return_max_overlap: bool = False,
) -> Any:
    """Samples proposals (and ground truth boxes) for the training of Fast R-CNN: boxes, classes and target deltas.

    Args:
        rpn_rois (Variable): proposals, [R, 4], float32 or float64, with a LoD.
        gt_classes (Variable): int32 [G, 1], classes of the ground truth, with a LoD.
        is_crowd (Variable): int32 [G, 1], with the same LoD: 1 for boxes to ignore.
        gt_boxes (Variable): ground truth boxes in the original image, [G, 4], with the same LoD.
        im_info (Variable): [N, 3]: height, width and scale of each image.
        batch_size_per_im (int): number of sampled boxes per image.
        fg_fraction (float): maximum fraction of foreground boxes.
        fg_thresh (float): minimum overlap of foreground boxes.
        bg_thresh_hi, bg_thresh_lo (float): range of the overlap of background boxes.
        bbox_reg_weights (list of 4 floats): divisors of the deltas.
        class_nums (int): number of classes with background.
        use_random (bool): sample at random (`paddle.seed` makes it repeatable), or take the first boxes.
        is_cls_agnostic (bool): whether all classes share the deltas of class 1.
        is_cascade_rcnn (bool): take all boxes except proposals that are ground truth boxes.
        max_overlap (Variable): [R], overlap of each proposal in the previous stage; for a cascade.
        return_max_overlap (bool): also return the overlaps of the sampled boxes.

    Returns:
        tuple: boxes [P, 4], classes (int32 [P, 1]), deltas [P, 4 * class_nums], and two weights [P, 4 * class_nums], 1
        for target deltas; with return_max_overlap the overlaps [P]. All have a LoD.

    Raises:
        TypeError: for variables of another type.
        ValueError: for incompatible shapes, LoDs or classes.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> rois, boxes = (fluid.data(n, [None, 4], lod_level=1) for n in ("rois", "boxes"))
        >>> classes, crowd = (fluid.data(n, [None, 1], "int32", 1) for n in ("classes", "crowd"))
        >>> info = fluid.data("info", [None, 3])
        >>> found = fluid.layers.generate_proposal_labels(rois, classes, crowd, boxes, info, class_nums=10)
        >>> [v.shape for v in found]
        [(-1, 4), (-1, 1), (-1, 40), (-1, 40), (-1, 40)]
    """
    where = "generate_proposal_labels"
    _check(where, FLOATS, rpn_rois=rpn_rois)
    _check(where, ["int32"], gt_classes=gt_classes, is_crowd=is_crowd)
    if is_cascade_rcnn:
        assert max_overlap is not None, f"{where}: max_overlap must be given where is_cascade_rcnn is True"
    found = _stop_gradients(
        _ops.generate_proposal_labels(
            rpn_rois,
            gt_classes,
            is_crowd,
            gt_boxes,
            im_info,
            max_overlap,
            batch_size_per_im=batch_size_per_im,
            fg_fraction=fg_fraction,
            fg_thresh=fg_thresh,
            bg_thresh_hi=bg_thresh_hi,
            bg_thresh_lo=bg_thresh_lo,
            bbox_reg_weights=list(bbox_reg_weights),
            class_nums=class_nums,
            use_random=use_random,
            is_cls_agnostic=is_cls_agnostic,
            is_cascade_rcnn=is_cascade_rcnn,
        )
    )
    return tuple(found) if return_max_overlap else tuple(found[:5])


def generate_mask_labels(
    im_info: Any,
    gt_classes: Any,
    is_crowd: Any,
    gt_segms: Any,
    rois: Any,
    labels_int32: Any,
    num_classes: int,
    resolution: int,
) -> Any:
    """Mask targets: for each foreground box the object's polygons inside of it, rasterized to 0 and 1.

    Args:
        im_info (Variable): float32 [N, 3]: height, width and scale of each image.
        gt_classes (Variable): int32 [G, 1], classes of the objects, with a LoD.
        is_crowd (Variable): int32 [G, 1], with the same LoD: 1 for objects to ignore.
        gt_segms (Variable): float32 [points, 2], vertices of the objects' polygons (COCO's format), in
            the original image, with a LoD of 3 levels: objects of images, their polygons, points of these.
        rois (Variable): float32 [R, 4], boxes with a LoD, as of generate_proposal_labels.
        labels_int32 (Variable): int32 [R, 1], their classes, with the same LoD.
        num_classes (int): number of classes with background.
        resolution (int): rows and columns of a mask.

    Returns:
        tuple: the foreground boxes [P, 4]; their indices in the image's boxes, int32 [P, 1]; int32
        [P, num_classes * resolution * resolution]: the mask in the slice of the box's class, -1 elsewhere. An image
        without objects has one background box. All have a LoD.

    Raises:
        ValueError: for incompatible shapes, LoDs or classes.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> info, rois = fluid.data("info", [None, 3]), fluid.data("rois", [None, 4], lod_level=1)
        >>> classes, crowd, labels = (fluid.data(n, [None, 1], "int32", 1) for n in ("classes", "crowd", "labels"))
        >>> segments = fluid.data("segments", [None, 2], lod_level=3)
        >>> found = fluid.layers.generate_mask_labels(info, classes, crowd, segments, rois, labels, 81, 14)
        >>> [v.shape for v in found]
        [(-1, 4), (-1, 1), (-1, 15876)]
    """
    found = _ops.generate_mask_labels(
        im_info,
        gt_classes,
        is_crowd,
        gt_segms,
        rois,
        labels_int32,
        num_classes=num_classes,
        resolution=resolution,
    )
    return tuple(_stop_gradients(found))
