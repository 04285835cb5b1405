"""Non-maximum suppression and detection outputs, fluid.layers.detection."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.element_types import FLOATS
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.fluid.layers.nn import softmax
from paddle.fluid.layers.nn.manipulation import transpose

from .priors import box_coder

__all__ = [
    "detection_output",
    "locality_aware_nms",
    "matrix_nms",
    "multiclass_nms",
    "retinanet_detection_output",
]


# Types of attributes.
_KINDS = {
    "background_label": int,
    "gaussian_sigma": float,
    "keep_top_k": int,
    "nms_eta": float,
    "nms_threshold": float,
    "nms_top_k": int,
    "normalized": bool,
    "post_threshold": float,
    "score_threshold": float,
    "use_gaussian": bool,
}


def _run(name, operator, bboxes, scores, **attrs):
    """Calls an operator with checked arguments; its first output has no gradient."""
    check_variable_and_dtype(bboxes, "BBoxes", FLOATS, operator)
    check_variable_and_dtype(scores, "Scores", FLOATS, operator)
    for attr, value in attrs.items():
        check_type(value, attr, _KINDS[attr], operator)
    outs = named(name, getattr(_ops, operator), bboxes, scores, **attrs)
    (outs[0] if isinstance(outs, tuple) else outs).stop_gradient = True
    return outs


def multiclass_nms(
    bboxes,
    scores,
    score_threshold,
    nms_top_k,
    keep_top_k,
    nms_threshold=0.3,
    normalized=True,
    nms_eta=1.0,
    background_label=0,
    name=None,
):
    """Non-maximum suppression for each class, then the best boxes of each image.

    Args:
        bboxes (Variable): [N, M, 4] (or 8, 16, 24, 32: corners of polygons), float32 or float64; or, where each class
            has separate boxes, [boxes of all images, classes, 4] with LoD.
        scores (Variable): [N, classes, M]; or [boxes of all images, classes].
        score_threshold (float): minimum score (exclusive). NaN never passes.
        nms_top_k (int): candidates per class; -1: all.
        keep_top_k (int): boxes per image; -1: all.
        nms_threshold (float): overlap above which the box of lower score is suppressed.
        normalized (bool): coordinates are relative to the image; else in pixels.
        nms_eta (float): if below 1, the threshold is multiplied by it for every kept box, while it is above
            0.5.
        background_label (int): the class to skip; -1: none.
        name (str): a name for the output.

    Returns:
        Variable: [kept boxes, 2 + coordinates of a box], (class, score, box), with LoD by images; [[-1.0]] if there
            are none.

    Raises:
        TypeError: for arguments of other types.
        ValueError: for incompatible shapes.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> boxes = paddle.to_tensor([[[0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.5, 0.4]]])
        >>> scores = paddle.to_tensor([[[0.5, 0.75]]])
        >>> fluid.layers.multiclass_nms(boxes, scores, 0.0, -1, -1, background_label=-1)[:, :2].numpy().tolist()
        [[0.0, 0.75]]
    """
    return _run(
        name,
        "multiclass_nms",
        bboxes,
        scores,
        background_label=background_label,
        score_threshold=score_threshold,
        nms_top_k=nms_top_k,
        nms_threshold=nms_threshold,
        nms_eta=nms_eta,
        keep_top_k=keep_top_k,
        normalized=normalized,
    )


def locality_aware_nms(
    bboxes,
    scores,
    score_threshold,
    nms_top_k,
    keep_top_k,
    nms_threshold=0.3,
    normalized=True,
    nms_eta=1.0,
    background_label=-1,
    name=None,
):
    """As `multiclass_nms`, but each box is first merged with its overlapping predecessor, weighted by their
    scores, which are added.

    Args:
        bboxes (Variable): [N, M, 4] (or 8, 16, 24, 32), float32 or float64.
        scores (Variable): [N, 1, M].

    The other arguments are those of `multiclass_nms`.

    Returns:
        Variable: [kept boxes, 2 + coordinates of a box] with LoD by images; [[-1.0]] if there are none.

    Raises:
        AssertionError: for several classes.
        TypeError: for arguments of other types.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> boxes = paddle.to_tensor([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]]])
        >>> scores = paddle.to_tensor([[[0.5, 0.25]]])
        >>> fluid.layers.locality_aware_nms(boxes, scores, 0.0, -1, -1).numpy().tolist()
        [[0.0, 0.75, 0.0, 0.0, 1.0, 1.0]]
    """
    check_variable_and_dtype(scores, "scores", FLOATS, "locality_aware_nms")
    shape = scores.shape
    assert len(shape) == 3, f"locality_aware_nms: scores must have three dimensions, got the shape {shape}"
    assert shape[1] == 1, f"locality_aware_nms: there can be one class only, scores of [N, 1, M], got the shape {shape}"
    attrs = {"score_threshold": score_threshold, "nms_threshold": nms_threshold, "nms_eta": nms_eta}
    attrs |= {"nms_top_k": nms_top_k, "keep_top_k": keep_top_k}
    attrs |= {"background_label": background_label, "normalized": normalized}
    return _run(name, "locality_aware_nms", bboxes, scores, **attrs)


def matrix_nms(
    bboxes,
    scores,
    score_threshold,
    post_threshold,
    nms_top_k,
    keep_top_k,
    use_gaussian=False,
    gaussian_sigma=2.0,
    background_label=0,
    normalized=True,
    return_index=False,
    name=None,
):
    """Matrix NMS: scores decay with the overlap with boxes of higher scores; no box is suppressed by overlap alone.

    Args:
        bboxes (Variable): [N, M, 4], float32 or float64.
        scores (Variable): [N, classes, M].
        score_threshold (float): minimum score (exclusive) before the decay.
        post_threshold (float): minimum score (exclusive) after it.
        nms_top_k (int): candidates per class; -1: all.
        keep_top_k (int): boxes per image; -1: all.
        use_gaussian (bool): Gaussian decay; else linear.
        gaussian_sigma (float): of the Gaussian.
        background_label (int): the class to skip; -1: none.
        normalized (bool): coordinates are relative to the image; else in pixels.
        return_index (bool): also return the indices of the boxes.
        name (str): prefix of the outputs' names.

    Returns:
        Variable: [kept boxes, 6], (class, score, box), by descending score, with LoD by images; with `return_index`
        also int32 [kept boxes, 1], indices over all images.

    Raises:
        TypeError: for arguments of other types.
        ValueError: for incompatible shapes.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> boxes = paddle.to_tensor([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.5]]])
        >>> scores = paddle.to_tensor([[[0.5, 0.25]]])
        >>> fluid.layers.matrix_nms(boxes, scores, 0.0, 0.0, -1, -1, background_label=-1)[:, 1].numpy().tolist()
        [0.5, 0.125]
    """
    out, index, _ = _run(
        name,
        "matrix_nms",
        bboxes,
        scores,
        background_label=background_label,
        score_threshold=score_threshold,
        post_threshold=post_threshold,
        nms_top_k=nms_top_k,
        gaussian_sigma=gaussian_sigma,
        use_gaussian=use_gaussian,
        keep_top_k=keep_top_k,
        normalized=normalized,
    )
    return (out, index) if return_index else out


def detection_output(
    loc,
    scores,
    prior_box,
    prior_box_var,
    background_label=0,
    nms_threshold=0.3,
    nms_top_k=400,
    keep_top_k=200,
    score_threshold=0.01,
    nms_eta=1.0,
    return_index=False,
):
    """The detections of an SSD: decoded boxes, softmax of the scores, and non-maximum suppression.

    Args:
        loc (Variable): [N, M, 4], offsets from the prior boxes; float32 or float64.
        scores (Variable): [N, M, classes], before the softmax.
        prior_box, prior_box_var (Variable): [M, 4].
        background_label (int), nms_eta (float): ignored, as in Paddle: class 0 is the background, and the
            threshold is constant.
        nms_threshold, nms_top_k, keep_top_k, score_threshold: as of `multiclass_nms`.
        return_index (bool): also return the indices of the boxes.

    Returns:
        Variable: [kept boxes, 6], (class, score, box), with LoD by images; [[-1.0]] if there are none. With
        `return_index` (boxes, int32 [kept boxes, 1]), both without rows if there are none.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> box, var = (fluid.data(n, [10, 4]) for n in ("box", "var"))
        >>> loc, scores = fluid.data("loc", [None, 10, 4]), fluid.data("scores", [None, 10, 3])
        >>> fluid.layers.detection_output(loc, scores, box, var).shape
        (-1, 6)
    """
    boxes = box_coder(prior_box, prior_box_var, loc, code_type="decode_center_size")
    likely = transpose(softmax(scores), perm=[0, 2, 1])
    likely.stop_gradient = True
    outs = (_ops.multiclass_nms2 if return_index else _ops.multiclass_nms)(
        boxes,
        likely,
        background_label=0,
        nms_threshold=nms_threshold,
        nms_top_k=nms_top_k,
        keep_top_k=keep_top_k,
        score_threshold=score_threshold,
        nms_eta=1.0,
    )
    for out in outs if return_index else [outs]:
        out.stop_gradient = True
    return outs


def retinanet_detection_output(
    bboxes,
    scores,
    anchors,
    im_info,
    score_threshold=0.05,
    nms_top_k=1000,
    keep_top_k=100,
    nms_threshold=0.3,
    nms_eta=1.0,
):
    """The detections of a RetinaNet: decoded boxes of all levels, and non-maximum suppression.

    Args:
        bboxes (list of Variable): one per level, [N, M, 4], offsets from the anchors; float32 or float64.
        scores (list of Variable): [N, M, classes], probabilities without a background class.
        anchors (list of Variable): [M, 4], in pixels.
        im_info (Variable): [N, 3], (height, width, scale) of the scaled images.
        score_threshold (float): minimum score (exclusive); 0 for the last level.
        nms_top_k (int): candidates per level; -1: all.
        keep_top_k (int): boxes per image; -1: all.
        nms_threshold (float): overlap above which the box of lower score is suppressed.
        nms_eta (float): ignored, as in Paddle.

    Returns:
        Variable: [kept boxes, 6], (class from 1 on, score, box in pixels of the original image), with LoD by
            images.

    Raises:
        TypeError: for arguments of other types.
        ValueError: for incompatible shapes.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> anchors, info = paddle.to_tensor([[0.0, 0.0, 9.0, 9.0]]), paddle.to_tensor([[20.0, 20.0, 1.0]])
        >>> boxes, scores = paddle.zeros([1, 1, 4]), paddle.to_tensor([[[0.75]]])
        >>> fluid.layers.retinanet_detection_output([boxes], [scores], [anchors], info).numpy().tolist()
        [[1.0, 0.75, 0.0, 0.0, 9.0, 9.0]]
    """
    where = "retinanet_detection_output"
    for name, values in (("bbox", bboxes), ("score", scores), ("anchor", anchors)):
        check_type(values, name, list, where)
        for i, value in enumerate(values):
            check_variable_and_dtype(value, f"{name}{i}", FLOATS, where)
    check_variable_and_dtype(im_info, "im_info", FLOATS, where)
    out = _ops.retinanet_detection_output(
        bboxes,
        scores,
        anchors,
        im_info,
        score_threshold=score_threshold,
        nms_top_k=nms_top_k,
        nms_threshold=nms_threshold,
        keep_top_k=keep_top_k,
        nms_eta=1.0,
    )
    out.stop_gradient = True
    return out
