"""Region proposals and their distribution over the levels of a feature pyramid, fluid.layers.detection."""

from __future__ import annotations

from typing import Any

import paddle._core as _core
from paddle import _ops
from paddle._basics import mode
from paddle._basics.element_types import FLOATS
from paddle._basics.mode import in_static_mode
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_dtype, check_type, check_variable_and_dtype

__all__ = ["collect_fpn_proposals", "distribute_fpn_proposals", "generate_proposals"]


def generate_proposals(
    scores: Any,
    bbox_deltas: Any,
    im_info: Any,
    anchors: Any,
    variances: Any,
    pre_nms_top_n: int = 6000,
    post_nms_top_n: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
    return_rois_num: bool = False,
    name: str | None = None,
) -> Any:
    """Region proposals: the anchors of highest score, decoded and clipped to the image, after non-maximum suppression.

    Args:
        scores (Variable): float32 [N, A, H, W]: objectness of the A anchors of a position.
        bbox_deltas (Variable): float32 [N, 4 * A, H, W]: offsets of the centers relative to the anchors' sides, and
            logarithms of the ratios of the sides.
        im_info (Variable): [N, 3]: height, width and scale of each image.
        anchors (Variable): float32 [H, W, A, 4].
        variances (Variable): float32 [H, W, A, 4], factors of the deltas.
        pre_nms_top_n (int): number of anchors of an image before non-maximum suppression.
        post_nms_top_n (int): maximum number of proposals of an image.
        nms_thresh (float): overlap above which the proposal of lower score is suppressed.
        min_size (float): minimum side, in pixels of the original image; at least 1.
        eta (float): if below 1, nms_thresh is multiplied by it for each kept proposal, while it is above 0.5.
        return_rois_num (bool): also return the numbers of proposals; must be True in dygraph mode.
        name (str): prefix of the outputs' names.

    Returns:
        tuple: proposals [R, 4] and their scores [R, 1], with a LoD; with return_rois_num also int32 [N], the number per
        image. An image without proposals has one of zeros.

    Raises:
        TypeError: for variables of another type.
        ValueError: for incompatible shapes.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> scores, deltas = fluid.data("scores", [None, 4, 5, 5]), fluid.data("deltas", [None, 16, 5, 5])
        >>> im_info = fluid.data("im_info", [None, 3])
        >>> anchors, variances = fluid.data("anchors", [5, 5, 4, 4]), fluid.data("variances", [5, 5, 4, 4])
        >>> rois, probs = fluid.layers.generate_proposals(scores, deltas, im_info, anchors, variances)
        >>> rois.shape, probs.shape
        ((-1, 4), (-1, 1))
    """
    if not in_static_mode():
        assert return_rois_num, "generate_proposals: return_rois_num must be True in dygraph mode"
    floats = {"scores": scores, "bbox_deltas": bbox_deltas, "anchors": anchors, "variances": variances}
    for what, value in floats.items():
        check_variable_and_dtype(value, what, ["float32"], "generate_proposals")
    check_variable_and_dtype(im_info, "im_info", FLOATS, "generate_proposals")
    asked = {"RpnRoisNum": 1} if return_rois_num and in_static_mode() else {}
    rois, probs, count = named(
        name,
        _ops.generate_proposals,
        scores,
        bbox_deltas,
        im_info,
        anchors,
        variances,
        pre_nms_topN=pre_nms_top_n,
        post_nms_topN=post_nms_top_n,
        nms_thresh=nms_thresh,
        min_size=min_size,
        eta=eta,
        **asked,
    )
    rois.stop_gradient = probs.stop_gradient = True
    if not return_rois_num:
        return rois, probs
    count.stop_gradient = True
    return rois, probs, count


def distribute_fpn_proposals(
    fpn_rois: Any,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    rois_num: Any = None,
    name: str | None = None,
) -> Any:
    """Distributes RoIs over the levels of a feature pyramid: a level for each doubling of the size.

    Args:
        fpn_rois (Variable): [R, 4], float32 or float64, with a LoD or rois_num.
        min_level, max_level (int): the first and the last level.
        refer_level (int): the level of RoIs of refer_scale x refer_scale pixels.
        refer_scale (int): as above.
        rois_num (Variable): int32 [N], the number of RoIs of each image; required in dygraph mode.
        name (str): prefix of the outputs' names.

    Returns:
        tuple: a list of the RoIs of each level; int32 [R, 1], the index of each RoI in the concatenated lists; with
        rois_num a list of int32 [N] per level, the number of RoIs of each image.

    Raises:
        TypeError: for RoIs of another type.
        ValueError: for incompatible shapes, levels or numbers.

    Examples:
        >>> import paddle
        >>> rois = paddle.to_tensor([[0.0, 0.0, 223.0, 223.0], [0.0, 0.0, 20.0, 20.0], [0.0, 0.0, 447.0, 447.0]])
        >>> count = paddle.to_tensor([3], dtype="int32")
        >>> levels, restore, counts = paddle.fluid.layers.distribute_fpn_proposals(rois, 2, 5, 4, 224, rois_num=count)
        >>> [v.shape[0] for v in levels], restore.numpy().ravel().tolist()
        ([1, 0, 1, 1], [1, 0, 2])
    """
    if not in_static_mode():
        assert rois_num is not None, "distribute_fpn_proposals: rois_num must be given in dygraph mode"
    check_variable_and_dtype(fpn_rois, "fpn_rois", FLOATS, "distribute_fpn_proposals")
    asked = {}
    if in_static_mode():
        levels = max_level - min_level + 1
        asked = {"MultiFpnRois": levels} | ({} if rois_num is None else {"MultiLevelRoIsNum": levels})
    rois, restore, counts = named(
        name,
        _ops.distribute_fpn_proposals,
        fpn_rois,
        rois_num,
        min_level=min_level,
        max_level=max_level,
        refer_level=refer_level,
        refer_scale=refer_scale,
        **asked,
    )
    return (rois, restore) if rois_num is None else (rois, restore, counts)


def collect_fpn_proposals(
    multi_rois: Any,
    multi_scores: Any,
    min_level: int,
    max_level: int,
    post_nms_top_n: int,
    rois_num_per_level: Any = None,
    name: str | None = None,
) -> Any:
    """The RoIs of highest score over all levels of a feature pyramid, grouped by images.

    Args:
        multi_rois (list of Variables): [R, 4] per level, float32 or float64, with a LoD or rois_num_per_level.
        multi_scores (list of Variables): [R, 1] per level.
        min_level, max_level (int): the first and the last level, which determine how many entries are read.
        post_nms_top_n (int): maximum number of RoIs of all images.
        rois_num_per_level (list of Variables): int32 [N] per level, the RoIs of each image; required in dygraph mode.
        name (str): prefix of the outputs' names.

    Returns:
        Variable: [R, 4] with a LoD; with rois_num_per_level also int32 [N], the RoIs of each image.

    Raises:
        TypeError: if multi_rois or multi_scores is not a list, or has another type.
        ValueError: for incompatible shapes or numbers.

    Examples:
        >>> import paddle
        >>> rois = [paddle.ones([2, 4]), paddle.zeros([1, 4])]
        >>> scores = [paddle.to_tensor([[0.1], [0.9]]), paddle.to_tensor([[0.5]])]
        >>> counts = [paddle.to_tensor([2], dtype="int32"), paddle.to_tensor([1], dtype="int32")]
        >>> best, count = paddle.fluid.layers.collect_fpn_proposals(rois, scores, 2, 3, 2, counts)
        >>> best.numpy()[:, 0].tolist(), count.numpy().tolist()
        ([1.0, 0.0], [2])
    """
    where = "collect_fpn_proposals"
    if not in_static_mode():
        assert rois_num_per_level is not None, f"{where}: rois_num_per_level must be given in dygraph mode"
    check_type(multi_rois, "multi_rois", list, where)
    check_type(multi_scores, "multi_scores", list, where)
    levels = max_level - min_level + 1
    for value in multi_rois[:levels]:
        check_dtype(value.dtype, "multi_rois", FLOATS, where)
    asked = {"RoisNum": 1} if rois_num_per_level is not None and in_static_mode() else {}
    rois, count = named(
        name,
        _ops.collect_fpn_proposals,
        multi_rois[:levels],
        multi_scores[:levels],
        rois_num_per_level,
        post_nms_topN=post_nms_top_n,
        **asked,
    )
    rois.stop_gradient = True
    if rois_num_per_level is None:
        return rois
    count.stop_gradient = True
    return rois, count
