"""fluid.layers.loss: losses of the layer API."""

from __future__ import annotations

import logging
from typing import Any

from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.element_types import FLOATS, HALF_FLOATS, NUMERIC, takes
from paddle._dispatch.append import named
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype, check_variables
from paddle.nn.functional import dice_loss, log_loss, npair_loss
from paddle.nn.functional.decode import warp_ctc
from paddle.nn.functional.loss import edit_distance, softmax_loss
from paddle.nn.initializer.base import Constant
from paddle.nn.layer_helper import LayerHelper
from paddle.static.nn.sampled import nce

from .nn import math

__all__ = [
    "cross_entropy",
    "square_error_cost",
    "softmax_with_cross_entropy",
    "sigmoid_cross_entropy_with_logits",
    "mse_loss",
    "bpr_loss",
    "center_loss",
    "hsigmoid",
    "huber_loss",
    "kldiv_loss",
    "margin_rank_loss",
    "rank_loss",
    "teacher_student_sigmoid_loss",
    "sampled_softmax_with_cross_entropy",
    "warpctc",
    "dice_loss",
    "log_loss",
    "npair_loss",
    "nce",
    "edit_distance",
]

kIgnoreIndex = -100


def cross_entropy(input, label, soft_label=False, ignore_index=kIgnoreIndex):  # noqa: A002
    """Cross entropy of probabilities: -log of the probability of the label.

    Args:
        input (Variable): probabilities, [N1, ..., Nk, D], float16, float32 or float64.
        label (Variable): int64 [N1, ..., Nk, 1]; with `soft_label` probabilities of the shape of `input`.
        soft_label (bool): whether labels are probabilities.
        ignore_index (int): a label whose loss is 0.

    Returns:
        Variable: [N1, ..., Nk, 1].
    """
    check_variable_and_dtype(input, "input", takes("cross_entropy"), "cross_entropy")
    if not soft_label:
        return _ops.cross_entropy2(input, label, ignore_index=ignore_index)[0]
    return _ops.cross_entropy(input, label, soft_label=True, ignore_index=ignore_index)


def square_error_cost(input, label):  # noqa: A002
    """(input - label) squared, element by element.

    Args:
        input, label (Variable): float32 or float64 of the same shape.
    """
    check_variable_and_dtype(input, "input", FLOATS, "square_error_cost")
    check_variable_and_dtype(label, "label", FLOATS, "square_error_cost")
    return _ops.square(_ops.elementwise_sub(input, label))


def softmax_with_cross_entropy(
    logits,
    label,
    soft_label=False,
    ignore_index=kIgnoreIndex,
    numeric_stable_mode=True,
    return_softmax=False,
    axis=-1,
):
    """The cross entropy of softmax(logits) along `axis`.

    Args:
        logits (Variable): float32 or float64.
        label (Variable): int64, size 1 along `axis`; with `soft_label` probabilities of the shape of `logits`.
        ignore_index (int): a label whose loss is 0.
        return_softmax (bool): also return the probabilities.

    Returns:
        Variable: the loss, size 1 along `axis`; with `return_softmax` (loss, probabilities).
    """
    return softmax_loss(logits, label, soft_label, ignore_index, numeric_stable_mode, return_softmax, axis)


def sigmoid_cross_entropy_with_logits(x, label, ignore_index=kIgnoreIndex, name=None, normalize=False):
    """The cross entropy of sigmoid(x), element by element.

    Args:
        x, label (Variable): float16, float32 or float64 of the same shape.
        ignore_index (int): a label whose loss is 0.
        normalize (bool): divide by the number of elements that are not ignored.
    """
    where = "sigmoid_cross_entropy_with_logits"
    check_variable_and_dtype(x, "input", takes(where), where)
    return named(name, _ops.sigmoid_cross_entropy_with_logits, x, label, ignore_index=ignore_index, normalize=normalize)


def mse_loss(input, label):  # noqa: A002
    """The mean of (input - label) squared.

    Args:
        input, label (Variable): float32 or float64 of the same shape.
    """
    check_variable_and_dtype(input, "input", FLOATS, "mse_loss")
    check_variable_and_dtype(label, "label", FLOATS, "mse_loss")
    return math.reduce_mean(square_error_cost(input, label))


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
    """Half the squared distance of each row from the center of its class; the centers are updated towards the rows.

    Args:
        input (Variable): [N, D], float32 or float64.
        label (Variable): int32 or int64, [N, 1].
        num_classes (int): number of centers.
        alpha (float or Variable): learning rate of the centers.
        param_attr (ParamAttr): of the centers, [num_classes, D], which no optimizer trains.
        update_center (bool): whether the centers are updated.

    Returns:
        Variable: [N, 1].

    Raises:
        ValueError: for a label that is not a class.

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
    """Hierarchical sigmoid: classes are leaves of a binary tree, whose nodes have parameters.

    Args:
        input (Variable): [N, D], float32 or float64.
        label (Variable): int64 [N, 1].
        num_classes (int): number of classes, at least 2.
        param_attr, bias_attr (ParamAttr): of the nodes' weights and biases; False as `bias_attr`: no bias.
        name (str): a name for the output.
        path_table, path_code (Variable): int64 [N, L]: nodes from the root (padded with -1), and the branch at each;
            only `is_custom` only.
        is_custom (bool): use the given paths.
        is_sparse (bool): the gradient contains the used rows only; only if `is_custom`.

    Returns:
        Variable: [N, 1].

    Raises:
        ValueError: for fewer than 2 classes, or paths that are missing or not allowed.
    """
    check_variables("hsigmoid", FLOATS, input=input)
    check_variables("hsigmoid", ["int64"], label=label)
    if (num_classes is None or num_classes < 2) and not is_custom:
        raise ValueError("num_classes must not be less than 2 with default tree")
    if is_sparse and not is_custom:
        logging.info("hsigmoid: is_sparse is ignored for the default tree")
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
        input, label (Variable): float32 or float64 of the same shape.
        delta (float): where the loss changes from quadratic to linear.
    """
    check_variables("huber_loss", FLOATS, input=input, label=label)
    return _ops.huber_loss(input, label, delta=delta)[1]


def kldiv_loss(x: Any, target: Any, reduction: str = "mean", name: str | None = None) -> Any:
    """Kullback-Leibler divergence: target * (log(target) - x), 0 where the target is not positive.

    Args:
        x (Variable): log probabilities, float32 or float64.
        target (Variable): probabilities of the same shape and type.
        reduction (str): "mean", "sum", "batchmean" or "none".
        name (str): a name for the output.
    """
    check_variables("kldiv_loss", FLOATS, x=x, target=target)
    check_type(reduction, "reduction", str, "kldiv_loss")
    return named(name, _ops.kldiv_loss, x, target, reduction=reduction)


def margin_rank_loss(label: Any, left: Any, right: Any, margin: float = 0.1, name: str | None = None) -> Any:
    """Margin ranking loss: max(0, -label * (left - right) + margin).

    Args:
        label (Variable): float32 [N, 1]: 1 if `left` should be greater, -1 if `right`.
        left, right (Variable): float32 [N, 1], scores.
        margin (float): the margin.
        name (str): a name for the output.
    """
    check_variables("margin_rank_loss", ["float32"], label=label, left=left, right=right)
    return named(name, _ops.margin_rank_loss, left, right, label, margin=margin)[1]


def rank_loss(label: Any, left: Any, right: Any, name: str | None = None) -> Any:
    """RankNet's loss (Burges et al., 2005): log(1 + exp(left - right)) - label * (left - right).

    Args:
        label (Variable): float32 [N, 1]: 1 if `left` should rank higher, 0 if lower.
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
    """The sum of the cross entropies of sigmoid(input) with a click and with a teacher's score.

    Args:
        input (Variable): scores, [N, 1].
        label (Variable): [N, 1]: -2 no click and -1 a click, without a teacher's score; a score in [0, 1), plus 1
            for a click.
        soft_max_up_bound, soft_max_lower_bound (float): bounds outside of which scores have no gradient.
    """
    check_variables("teacher_student_sigmoid_loss", NUMERIC, input=input, label=label)
    return _ops.teacher_student_sigmoid_loss(
        input,
        label,
        soft_max_up_bound=float(soft_max_up_bound),
        soft_max_lower_bound=float(soft_max_lower_bound),
    )


def sampled_softmax_with_cross_entropy(
    logits: Any,
    label: Any,
    num_samples: int,
    num_true: int = 1,
    remove_accidental_hits: bool = True,
    use_customized_samples: bool = False,
    customized_samples: Any = None,
    customized_probabilities: Any = None,
    seed: int = 0,
) -> Any:
    """Cross entropy of the softmax over the labels and classes sampled from a log-uniform distribution, with logits
    corrected by log probabilities (Paddle 2.0: paddle.fluid.layers.sampled_softmax_with_cross_entropy).

    Args:
        logits (Variable): [N, classes], float32 or float64.
        label (Variable): int64 [N, num_true].
        num_samples (int): number of sampled classes, all different, shared by all rows.
        num_true (int): labels per row; the loss is divided by it.
        remove_accidental_hits (bool): ignore sampled classes that are labels of the row.
        use_customized_samples (bool): use the given classes and probabilities:
        customized_samples (Variable, optional): int64 [N, num_true + num_samples], labels first.
        customized_probabilities (Variable, optional): their probabilities, of the type of `logits`.
        seed (int): seed of the sampler; 0 for the global generator.

    Returns:
        Variable: [N, 1].

    Raises:
        ValueError: for labels that are not classes, or more samples than classes.

    Examples:
        >>> import paddle
        >>> logits, label = paddle.rand([4, 100]), paddle.to_tensor([[3], [5], [7], [9]])
        >>> paddle.fluid.layers.sampled_softmax_with_cross_entropy(logits, label, num_samples=25).shape
        [4, 1]
    """
    sampled, labels = _ops.sample_logits(
        logits,
        label,
        customized_samples,
        customized_probabilities,
        use_customized_samples=use_customized_samples,
        uniq=True,
        remove_accidental_hits=remove_accidental_hits,
        num_samples=num_samples,
        seed=seed,
    )[4:]
    soft = _ops.one_hot(labels, depth=num_samples + 1)
    loss = _ops.softmax_with_cross_entropy(sampled, soft, soft_label=True, numeric_stable_mode=False)[1]
    return loss / num_true


def warpctc(input, label, blank=0, norm_by_times=False, input_length=None, label_length=None):  # noqa: A002
    """Connectionist temporal classification: -log of the probability of the label sequence given the steps' scores.

    Args:
        input (Variable): raw scores, float32 or float64 [steps, batch, classes]; without lengths [steps of all
            sequences, classes] with a LoD.
        label (Variable): int32 [batch, labels]; without lengths [labels of all sequences, 1] with a LoD.
        blank (int): the blank label.
        norm_by_times (bool): divide the gradient by the number of steps.
        input_length, label_length (Variable): int64 [batch], both or none.

    Returns:
        Variable: [batch, 1].
    """
    return warp_ctc(input, label, blank, norm_by_times, input_length, label_length)
