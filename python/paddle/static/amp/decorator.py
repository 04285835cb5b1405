"""decorate: it wraps an optimizer for training in mixed precision."""

from __future__ import annotations

import warnings
from typing import Any

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._programs.guards import default_main_program, program_guard
from paddle.optimizer.base import Pairs
from paddle.static.creation import create_global_var
from paddle.tensor import concat

from .amp_nn import check_finite_and_unscale, update_loss_scaling
from .fp16_lists import AutoMixedPrecisionLists
from .fp16_utils import cast_model_to_fp16, cast_parameters_to_fp16, low_type, rewrite_program, update_role_var_grad

__all__ = ["decorate"]


class OptimizerWithMixedPrecision:
    """The result of :func:`decorate`: a wrapper of an optimizer that rewrites the Program and scales the loss."""

    def __init__(
        self,
        optimizer: Any,
        amp_lists: AutoMixedPrecisionLists,
        init_loss_scaling: float,
        use_dynamic_loss_scaling: bool,
        incr_every_n_steps: int,
        decr_every_n_nan_or_inf: int,
        incr_ratio: float,
        decr_ratio: float,
        use_pure_fp16: bool,
        use_fp16_guard: bool,
    ) -> None:
        self._optimizer = optimizer
        self._amp_lists = amp_lists
        self._train_program: Any = None
        self._is_distributed = False
        self._scaled_loss: Any = None
        self._loss_scaling: Any = None
        self._init_loss_scaling = init_loss_scaling
        self._use_dynamic_loss_scaling = use_dynamic_loss_scaling
        self._learning_rate = optimizer._learning_rate
        self._learning_rate_map = optimizer._learning_rate_map
        self._use_pure_fp16 = use_pure_fp16
        self._use_fp16_guard = use_fp16_guard
        self._to_fp16_var_names: Any = None
        self._when = incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio
        self._num_good_steps: Any = None
        self._num_bad_steps: Any = None

    @property
    def _scales(self) -> bool:
        return self._use_dynamic_loss_scaling or self._init_loss_scaling != 1.0

    @property
    def _param_device_map(self) -> dict[str, Any]:
        return self._optimizer._param_device_map

    def _set_distributed(self, flag: bool) -> None:
        """Sets whether gradients are checked one by one, which overlaps with the exchange of other gradients."""
        self._is_distributed = flag

    def get_loss_scaling(self) -> Any:
        """The Variable of the scale."""
        return self._loss_scaling

    def get_scaled_loss(self) -> Any:
        """The Variable of the loss times the scale."""
        return self._scaled_loss

    def _init_amp_var(self) -> None:
        def var(name: str, value: float, dtype: str) -> Any:
            return create_global_var([1], value, dtype, persistable=True, name=unique_name.generate(name))

        self._loss_scaling = var("loss_scaling", self._init_loss_scaling, "float32")
        if self._use_dynamic_loss_scaling:
            self._num_good_steps = var("num_good_steps", 0, "int32")
            self._num_bad_steps = var("num_bad_steps", 0, "int32")
        # float32, as the master weights, for every type of loss
        rate = self._optimizer._learning_rate
        if isinstance(rate, float):
            self._optimizer._learning_rate_map[default_main_program()] = var("learning_rate", rate, "float32")

    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Pairs:
        """Rewrites the forward operators, and appends backward from the scaled loss.

        Returns:
            Pairs of parameter and scaled gradient.
        """
        self._train_program = loss.block.program
        with program_guard(self._train_program, startup_program):
            self._init_amp_var()
            if self._use_pure_fp16:
                self._to_fp16_var_names = cast_model_to_fp16(self._train_program, self._amp_lists, self._use_fp16_guard)
            else:
                rewrite_program(self._train_program, self._amp_lists)
            if loss.dtype != VarType.FP32:
                loss = loss.astype("float32")
            self._scaled_loss = loss * self._loss_scaling if self._scales else loss
            return self._optimizer.backward(self._scaled_loss, startup_program, parameter_list, no_grad_set, callbacks)

    def amp_init(self, place: Any, scope: Any = None, test_program: Any = None, use_fp16_test: bool = False) -> None:
        """Casts the parameters for pure float16 training; call it after the startup program has run.

        Args:
            place (Place): the parameters' place. scope (Scope, optional): the global one when None.
            test_program (Program, optional): rewritten like the training Program.
            use_fp16_test (bool): rewrite `test_program` also without pure float16 training.
        """
        assert self._train_program is not None, "amp_init: call minimize first"
        if self._use_pure_fp16:
            cast_parameters_to_fp16(place, self._train_program, scope, self._to_fp16_var_names)
        if test_program is not None:
            if self._use_pure_fp16:
                cast_model_to_fp16(test_program, self._amp_lists, self._use_fp16_guard)
            elif use_fp16_test:
                rewrite_program(test_program, self._amp_lists)

    def apply_gradients(self, params_grads: Pairs) -> list[Any]:
        """Appends the check of the scaled gradients, the update of the scale, and the optimizer's update."""
        update_role_var_grad(self._train_program, params_grads)
        if self._scales:
            self._append_scaling(params_grads)
        return self._optimizer.apply_gradients(params_grads)

    def _append_scaling(self, params_grads: Pairs) -> None:
        program, scale = self._train_program, self._loss_scaling
        grads = [grad for _, grad in params_grads]
        low = low_type()
        types = {"fp32": VarType.FP32, "bf16" if low == VarType.BF16 else "fp16": low}
        by_type = {kind: [g for g in grads if g.dtype == t] for kind, t in types.items()}
        assert sum(map(len, by_type.values())) == len(grads), (
            "mixed precision: gradients must be of low precision or float32"
        )
        found = []
        if self._is_distributed:
            groups = [([p, g], [g], "find_infinite_scale") for p, g in params_grads]
        elif self._use_pure_fp16:
            groups = [(gs, gs, f"find_infinite_scale_{kind}") for kind, gs in by_type.items() if gs]
        else:
            groups = [(grads, grads, "find_infinite_scale")]
        for role, group, name in groups:
            with program._optimized_guard(role):
                found.append(check_finite_and_unscale(group, scale, name=name)[1])
        if not self._use_dynamic_loss_scaling:
            return
        with program._optimized_guard([]):
            several = self._is_distributed or self._use_pure_fp16
            bad = _ops.reduce_any(concat(found), reduce_all=True) if several else found[0]
            updates = (
                [(gs, f"update_loss_scaling_{kind}") for kind, gs in by_type.items() if gs]
                if self._use_pure_fp16
                else [(grads, "update_loss_scaling")]
            )
            for i, (group, name) in enumerate(updates):
                update_loss_scaling(
                    group,
                    bad,
                    scale,
                    self._num_good_steps,
                    self._num_bad_steps,
                    *self._when,
                    stop_update=i > 0,
                    name=name,
                )

    def apply_optimize(self, loss: Any, startup_program: Any, params_grads: Pairs) -> list[Any]:
        """`apply_gradients` to the Program of `loss`."""
        with program_guard(loss.block.program, startup_program):
            return self.apply_gradients(params_grads)

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[list[Any], Pairs]:
        """`backward` and `apply_optimize` in one.

        Returns:
            (operators of the update, pairs of parameter and scaled gradient).
        """
        if "minimize" in vars(type(self._optimizer)):
            warnings.warn(
                f"decorate: {type(self._optimizer).__name__} has a minimize of its own, which is not called",
                stacklevel=2,
            )
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, pairs), pairs


def decorate(
    optimizer: Any,
    amp_lists: AutoMixedPrecisionLists | None = None,
    init_loss_scaling: float = 2**15,
    incr_every_n_steps: int = 1000,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.8,
    use_dynamic_loss_scaling: bool = True,
    use_pure_fp16: bool = False,
    use_fp16_guard: bool | None = None,
) -> OptimizerWithMixedPrecision:
    """An optimizer whose Programs compute partly in float16, with a scaled loss.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/static/amp/decorate_en.html

    On the CPU, float16 operators compute in float32 and round the results to float16. With ``FLAGS_cpu_amp=bfloat16``
    the type is bfloat16.

    Args:
        optimizer (Optimizer): the optimizer to wrap.
        amp_lists (CustomOpLists, optional): the operators of each type; the default lists when None.
        init_loss_scaling (float): the first scale of the loss.
        incr_every_n_steps, decr_every_n_nan_or_inf (int): the scale grows after this number of consecutive finite
            steps, and shrinks after this number of steps with inf or nan.
        incr_ratio, decr_ratio (float): the factors of the scale.
        use_dynamic_loss_scaling (bool): whether to change the scale.
        use_pure_fp16 (bool): parameters and operators are float16, except those without float16 support.
        use_fp16_guard (bool, optional): only operators in `fp16_guard`; as `use_pure_fp16` when None.

    Returns:
        OptimizerWithMixedPrecision: with `minimize`, `backward`, `apply_gradients`, `amp_init`.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> loss = paddle.mean(paddle.static.nn.fc(paddle.static.data("x", [None, 4], "float32"), 10))
        >>> optimizer = paddle.static.amp.decorate(paddle.optimizer.Adam(0.001), init_loss_scaling=8.0)
        >>> ops, pairs = optimizer.minimize(loss)
        >>> len(pairs)
        2
        >>> paddle.disable_static()
    """
    return OptimizerWithMixedPrecision(
        optimizer,
        amp_lists or AutoMixedPrecisionLists(),
        init_loss_scaling,
        use_dynamic_loss_scaling,
        incr_every_n_steps,
        decr_every_n_nan_or_inf,
        incr_ratio,
        decr_ratio,
        use_pure_fp16,
        use_pure_fp16 if use_fp16_guard is None else use_fp16_guard,
    )
