"""Losses of fluid.layers that the 2.0 API has not, or under other names."""

from __future__ import annotations

import logging
from typing import Any

from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.element_types import FLOATS, HALF_FLOATS, NUMERIC
from paddle._dispatch.append import named
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variables
from paddle.nn.functional import dice_loss, log_loss, npair_loss
from paddle.nn.initializer.base import Constant
from paddle.nn.layer_helper import LayerHelper

__all__ = [
    "bpr_loss",
    "center_loss",
    "dice_loss",
    "hsigmoid",
    "huber_loss",
    "kldiv_loss",
    "log_loss",
    "margin_rank_loss",
    "mean_iou",
    "npair_loss",
    "rank_loss",
    "sigmoid_focal_loss",
    "smooth_l1",
    "teacher_student_sigmoid_loss",
]


def bpr_loss(input: Any, label: Any, name: str | None = None) -> Any:  # noqa: A002
    """Bayesian personalized ranking: the mean over the other classes of log(1 + exp(their score - the label's)).

    Args:
        input (Variable): scores, [N1, ..., Nk, classes], float16, float32 or float64.
        label (Variable): int64 [N1, ..., Nk, 1].
        name (str): a name for the output.

    Returns:
        Variable: [N1, ..., Nk, 1].

    Examples:
        >>> import paddle
        >>> round(float(paddle.fluid.layers.bpr_loss(paddle.zeros([1, 4]), paddle.to_tensor([[2]]))), 4)
        0.6931
    """
    check_variables("bpr_loss", HALF_FLOATS, input=input)
    return named(name, _ops.bpr_loss, input, label)


def center_loss(
    input: Any,  # noqa: A002
    label: Any,
    num_classes: int,
    alpha: Any,
    param_attr: Any,
    update_center: bool = True,
) -> Any:
    """Half the squared distance of each row from the center of its class; the centers follow the rows.

    Args:
        input (Variable): [N, D], float32 or float64.
        label (Variable): int32 or int64, [N, 1].
        num_classes (int): how many centers.
        alpha (float or Variable): how far the centers move.
        param_attr (ParamAttr): of the centers, [num_classes, D], which are not trained.
        update_center (bool): whether they move.

    Returns:
        Variable: [N, 1].

    Raises:
        ValueError: for a label that is no class.

    Examples:
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> zeros = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.0))
        >>> x, label = paddle.ones([1, 4]), paddle.to_tensor([[1]])
        >>> float(fluid.layers.center_loss(x, label, 3, 0.5, zeros))
        2.0
    """
    check_variables("center_loss", FLOATS, input=input)
    check_variables("center_loss", ["int32", "int64"], label=label)
    helper = LayerHelper("center_loss", param_attr=param_attr)
    centers = helper.create_parameter(attr=param_attr, shape=[num_classes, input.shape[1]], dtype=input.dtype)
    centers.stop_gradient = True
    if isinstance(alpha, Variable):
        check_variables("center_loss", FLOATS, alpha=alpha)
    else:
        assert isinstance(alpha, float), f"center_loss: alpha must be a float or a Variable, got {type(alpha)}"
        rate = helper.create_global_variable(
            name="centerloss_alpha", shape=[1], dtype="float32", persistable=True, stop_gradient=True
        )
        helper.set_variable_initializer(rate, Constant(alpha))
        alpha = rate
    return named(
        helper.name,
        _ops.center_loss,
        input,
        label,
        centers,
        alpha,
        CentersOut=centers,
        cluster_num=num_classes,
        need_update=update_center,
    )[2]


def hsigmoid(
    input: Any,  # noqa: A002
    label: Any,
    num_classes: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
    path_table: Any = None,
    path_code: Any = None,
    is_custom: bool = False,
    is_sparse: bool = False,
) -> Any:
    """The loss of classes that are leaves of a binary tree, with parameters for its nodes.

    Args:
        input (Variable): [N, D], float32 or float64.
        label (Variable): int64 [N, 1].
        num_classes (int): how many classes, 2 or more.
        param_attr, bias_attr (ParamAttr): of the nodes' vectors and numbers; False as `bias_attr`: no numbers.
        name (str): a name for the output.
        path_table, path_code (Variable): int64 [N, L]: nodes from the root (then -1), and the side taken at each; with
            `is_custom` only.
        is_custom (bool): the paths are given.
        is_sparse (bool): the gradient has only the rows that occur; with `is_custom` only.

    Returns:
        Variable: [N, 1].

    Raises:
        ValueError: for fewer classes, or paths where they do not belong or are missing.
    """
    check_variables("hsigmoid", FLOATS, input=input)
    check_variables("hsigmoid", ["int64"], label=label)
    if (num_classes is None or num_classes < 2) and not is_custom:
        raise ValueError("num_classes must not be less than 2 with default tree")
    if is_sparse and not is_custom:
        logging.info("hsigmoid: is_sparse is for trees of one's own, and left out")
        is_sparse = False
    paths = {"path_table": path_table, "path_code": path_code}
    if not is_custom and any(value is not None for value in paths.values()):
        raise ValueError("only num_classes should be passed without custom tree")
    for what, value in {**paths, "num_classes": num_classes}.items():
        if is_custom and value is None:
            raise ValueError(f"{what} should not be None with custom tree")
    helper = LayerHelper("hierarchical_sigmoid", param_attr=param_attr, bias_attr=bias_attr, name=name)
    nodes = num_classes if is_custom else num_classes - 1
    weights = helper.create_parameter(
        attr=helper.param_attr, shape=[nodes, input.shape[1]], is_bias=False, dtype=input.dtype
    )
    bias = None
    if helper.bias_attr:
        bias = helper.create_parameter(attr=helper.bias_attr, shape=[nodes, 1], is_bias=True, dtype=input.dtype)
    return named(
        helper.name,
        _ops.hierarchical_sigmoid,
        input,
        weights,
        label,
        path_table,
        path_code,
        bias,
        num_classes=num_classes,
        is_sparse=is_sparse,
    )[0]


def huber_loss(input: Any, label: Any, delta: float) -> Any:  # noqa: A002
    """0.5 * d * d where abs(d) <= delta, else delta * (abs(d) - 0.5 * delta), with d = label - input.

    Args:
        input, label (Variable): float32 or float64 of one shape.
        delta (float): from where on the loss is a line.
    """
    check_variables("huber_loss", FLOATS, input=input, label=label)
    return _ops.huber_loss(input, label, delta=delta)[1]


def kldiv_loss(x: Any, target: Any, reduction: str = "mean", name: str | None = None) -> Any:
    """target * (log(target) - x), 0 where the target is not above 0.

    Args:
        x (Variable): logarithms of probabilities, float32 or float64.
        target (Variable): probabilities of the same shape and type.
        reduction (str): "mean", "sum", "batchmean" or "none".
        name (str): a name for the output.
    """
    check_variables("kldiv_loss", FLOATS, x=x, target=target)
    check_type(reduction, "reduction", str, "kldiv_loss")
    return named(name, _ops.kldiv_loss, x, target, reduction=reduction)


def margin_rank_loss(label: Any, left: Any, right: Any, margin: float = 0.1, name: str | None = None) -> Any:
    """max(0, -label * (left - right) + margin).

    Args:
        label (Variable): float32 [N, 1]: 1 where `left` shall be greater, -1 where `right`.
        left, right (Variable): float32 [N, 1], scores.
        margin (float): by how much.
        name (str): a name for the output.
    """
    check_variables("margin_rank_loss", ["float32"], label=label, left=left, right=right)
    return named(name, _ops.margin_rank_loss, left, right, label, margin=margin)[1]


def rank_loss(label: Any, left: Any, right: Any, name: str | None = None) -> Any:
    """RankNet's loss (Burges et al., 2005): log(1 + exp(left - right)) - label * (left - right).

    Args:
        label (Variable): float32 [N, 1]: 1 where `left` shall be ranked higher, 0 where lower.
        left, right (Variable): float32 [N, 1], scores.
        name (str): a name for the output.
    """
    check_variables("rank_loss", ["float32"], label=label, left=left, right=right)
    return named(name, _ops.rank_loss, label, left, right)


def teacher_student_sigmoid_loss(
    input: Any,  # noqa: A002
    label: Any,
    soft_max_up_bound: float = 15.0,
    soft_max_lower_bound: float = -15.0,
) -> Any:
    """Cross entropies of sigmoid(input) with a click and with a teacher's opinion.

    Args:
        input (Variable): scores, [N, 1].
        label (Variable): [N, 1]: -2 no click and -1 a click, without an opinion; an opinion from 0 to below 1, plus 1
            for a click.
        soft_max_up_bound, soft_max_lower_bound (float): beyond them scores have no gradient.
    """
    check_variables("teacher_student_sigmoid_loss", NUMERIC, input=input, label=label)
    return _ops.teacher_student_sigmoid_loss(
        input,
        label,
        soft_max_up_bound=float(soft_max_up_bound),
        soft_max_lower_bound=float(soft_max_lower_bound),
    )


def smooth_l1(x: Any, y: Any, inside_weight: Any = None, outside_weight: Any = None, sigma: float | None = None) -> Any:
    """The sum over each row of outside_weight * f(inside_weight * (x - y)), where f(d) is 0.5 * (sigma * d) squared
    below 1 / sigma squared, and abs(d) - 0.5 / sigma squared beyond.

    Args:
        x, y (Variable): [N, ...], float32 or float64.
        inside_weight, outside_weight (Variable): of the same shape; both or none.
        sigma (float): 1.0 where None.

    Returns:
        Variable: [N, 1].
    """
    check_variables("smooth_l1_loss", FLOATS, X=x, Y=y)
    return _ops.smooth_l1_loss(x, y, inside_weight, outside_weight, sigma=1.0 if sigma is None else sigma)[1]


def sigmoid_focal_loss(x: Any, label: Any, fg_num: Any, gamma: float = 2.0, alpha: float = 0.25) -> Any:
    """The focal loss (Lin et al., 2017) of every class of each sample, over the number of foreground samples.

    Args:
        x (Variable): scores, [N, classes], float32 or float64.
        label (Variable): int32 [N, 1]: 1 to classes, 0 for the background, -1 for samples that do not count.
        fg_num (Variable): int32 [1].
        gamma (float): how much less easy samples count.
        alpha (float): the weight of the label's class; the others have 1 - alpha.

    Returns:
        Variable: of the shape of `x`.
    """
    check_variables("sigmoid_focal_loss", FLOATS, x=x)
    check_variables("sigmoid_focal_loss", ["int32"], label=label, fg_num=fg_num)
    return _ops.sigmoid_focal_loss(x, label, fg_num, gamma=gamma, alpha=alpha)


def mean_iou(input: Any, label: Any, num_classes: int) -> Any:  # noqa: A002
    """The mean over the classes of intersection over union of predicted and true places.

    Args:
        input, label (Variable): int32 or int64 classes, of one shape.
        num_classes (int): how many there are.

    Returns:
        tuple: the mean, float32 [1], and the numbers of wrong and of right places by class, int32 [num_classes].

    Raises:
        ValueError: for a number that is no class.

    Examples:
        >>> import paddle
        >>> p, y = paddle.to_tensor([0, 1, 1]), paddle.to_tensor([0, 1, 0])
        >>> float(paddle.fluid.layers.mean_iou(p, y, 2)[0])
        0.5
    """
    check_variables("mean_iou", ["int32", "int64"], Predictions=input, Labels=label)
    return _ops.mean_iou(input, label, num_classes=num_classes)
