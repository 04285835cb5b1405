"""What 2.0 computes otherwise than 1.8: one table. `FLAGS_compat=1.8` selects 1.8's side of every row.

docs/guides/fluid.md shows this table; tests/legacy/test_changes.py has a test of each row in both settings.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CHANGES", "Change"]


class Change(NamedTuple):
    """One row.

    Attributes:
        key: the name of the row's test.
        what: the function, operator or optimizer.
        before, now: what 1.8 and 2.0 compute.
        where: the module that reads the flag.
    """

    key: str
    what: str
    before: str
    now: str
    where: str


CHANGES = [
    Change(
        "operator_axis",
        "`x * y` and the other operators of Variables of a Program",
        "axis 0 where the first size of `y` is unknown (-1): `y` is aligned with the first dimensions of `x`",
        "axis -1: `y` is aligned with the last dimensions; a warning where this differs",
        "paddle._dispatch.math_op_patch",
    ),
    Change(
        "integer_scalar",
        "`x + 1.5`, `x / 2` and the like, `x` a Variable of integers",
        "the result is of integers, and `x / 2` is truncated; a number with a fraction is an AssertionError",
        "`x` is converted to float32 where the number is a float, and for `/`",
        "paddle._dispatch.math_op_patch",
    ),
    Change(
        "remainder",
        "`elementwise_mod` and `%` of integers of different signs",
        "the sign of the dividend, as in C",
        "the sign of the divisor, as in Python",
        "paddle._dispatch.math_op_patch, paddle.fluid.layers",
    ),
    Change(
        "adam_epsilon",
        "Adam, and AdamW of `extend_with_decoupled_weight_decay`",
        "the step is divided by `sqrt(v) + epsilon`",
        "by `sqrt(v) + epsilon * sqrt(1 - beta2 ** t)`",
        "oar_ops_optim::optimizer",
    ),
    Change(
        "sparse_adam",
        "Adam of a sparse gradient, rows that it lacks",
        "as its other rows, with `epsilon` as it is",
        "with `epsilon` as it is, other rows with `epsilon * sqrt(1 - beta2 ** t)`",
        "oar_ops_optim::optimizer",
    ),
    Change(
        "lamb_bias",
        "Lamb",
        "the moments as they are",
        "the moments divided by `1 - beta ** t`",
        "oar_ops_optim::lamb",
    ),
    Change(
        "lars_without_decay",
        "LarsMomentum with `lars_weight_decay=0`",
        "the rate is scaled by `lars_coeff * norm(param) / norm(grad)`",
        "the rate as it is",
        "oar_ops_optim::lars_momentum",
    ),
    Change(
        "lookahead",
        "`fluid.optimizer.LookaheadOptimizer`",
        "slow weights begin as the initial parameters",
        "as the parameters after the first step",
        "paddle.fluid.optimizer.merging",
    ),
    Change(
        "linear_warmup",
        "`fluid.dygraph.LinearLrWarmup` during warmup",
        "`(end_lr - start_lr) * step / warmup_steps`",
        "`start_lr` is added",
        "paddle.fluid.lr_decay",
    ),
    Change(
        "loader_fields",
        "`fluid.io.DataLoader(dataset, feed_list)` in a Program's process, without `return_list`",
        "yields dicts, to feed",
        "yields lists",
        "paddle.io.dataloader",
    ),
    Change(
        "dygraph_bias",
        "`fluid.dygraph.Conv3DTranspose` and `NCE` without `bias_attr`",
        "no bias is added (in 2.0.2, too)",
        "the bias is added, as documented",
        "paddle.fluid.dygraph.nn",
    ),
    Change(
        "quantized_mul",
        "`channel_wise_abs_max` of the weights of `mul`, by slim's passes",
        "one scale",
        "a scale for each output",
        "paddle.fluid.contrib.slim.quantization",
    ),
    Change(
        "frozen_scale",
        "`QuantizationFreezePass`, scales of weights",
        "of the weights as they are",
        "of the last run, before its update",
        "paddle.fluid.contrib.slim.quantization.freezing",
    ),
]
