"""Gradient clipping, applied between backward and an optimizer's step."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from paddle import _ops
from paddle._basics.dtypes import VarType
from paddle._basics.mode import dygraph_not_support, in_static_mode
from paddle._dispatch.device_step import clip_all
from paddle._dispatch.dygraph import no_grad_
from paddle._programs.guards import default_main_program
from paddle._programs.name_scope import name_scope
from paddle._programs.variable import Parameter
from paddle._programs.versions import without_version

__all__ = ["ClipGradByGlobalNorm", "ClipGradByNorm", "ClipGradByValue"]

Pairs = Iterable[tuple[Any, Any]]


class BaseErrorClipAttr:
    """Base of error clips (see `Variable._set_error_clip`): clips the gradient of a variable during backward."""

    def __str__(self) -> str:
        raise NotImplementedError(f"'__str__' not implement in class {type(self).__name__}")

    def _append_clip_op(self, block: Any, grad_name: str) -> None:
        raise NotImplementedError(f"'_append_clip_op' not implement in class {type(self).__name__}")


class ErrorClipByValue(BaseErrorClipAttr):
    """Clips the gradient of a variable to [min, max] (default: [-max, max]) before it is propagated further.

    Examples:
        >>> import paddle
        >>> print(paddle.fluid.clip.ErrorClipByValue(max=2.0))
        ByValue, min=-2.000000, max=2.000000
    """

    def __init__(self, max: float, min: float | None = None) -> None:
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def __str__(self) -> str:
        return f"ByValue, min={self.min:f}, max={self.max:f}"

    def _append_clip_op(self, block: Any, grad_name: str) -> None:
        desc = block.desc.append_op()
        desc.set_type("clip")
        desc.set_input("X", [grad_name])
        desc.set_output("Out", [grad_name])
        desc._set_attr("min", self.min)
        desc._set_attr("max", self.max)


def error_clip_callback(block: Any, context: dict[str, str]) -> None:
    """Called by append_backward after each gradient operator: clips gradients of variables that have an error clip.

    `context` maps gradient names to variable names. TypeError for an `error_clip` of another type.
    """
    desc = block.desc.op(block.desc.op_size() - 1)
    for grad_name in desc.output_arg_names():
        if grad_name not in context:
            continue
        error_clip = getattr(block._var_recursive(without_version(context[grad_name])), "error_clip", None)
        if error_clip is None:
            continue
        if not isinstance(error_clip, BaseErrorClipAttr):
            raise TypeError("error_clip must be None or derive from BaseErrorClipAttr")
        error_clip._append_clip_op(block, grad_name)


def _dense(grad: Any) -> Any:
    """A dense gradient; for SelectedRows the merged rows only (rows that do not occur are zero)."""
    if grad.type == VarType.SELECTED_ROWS:
        return _ops.get_tensor_from_selected_rows(_ops.merge_selected_rows(grad))
    return grad


def _square_sum(grad: Any) -> Any:
    return _ops.reduce_sum(_ops.square(_dense(grad)), reduce_all=True)


def _shrink(norm: Any, clip_norm: float) -> Any:
    """clip_norm / max(norm, clip_norm)."""
    limit = _ops.fill_constant(shape=[1], dtype=norm.dtype, value=clip_norm)
    return _ops.elementwise_div(limit, _ops.elementwise_max(limit, norm))


def _clip_each(
    params_grads: Pairs, wanted: Callable[[Any], bool], clipped: Callable[[Any], Any]
) -> list[tuple[Any, Any]]:
    """The pairs with gradients `clipped(grad)`; the operators get the op_role of parameter updates."""
    pairs = []
    for p, g in params_grads:
        if g is None:
            continue
        if wanted(p):
            with p.block.program._optimized_guard([p, g]):
                g = clipped(g)
        pairs.append((p, g))
    return pairs


class ClipGradBase:
    """Base of gradient clips: `clip(params_grads)` returns the pairs (parameter, clipped gradient).

    Pairs without a gradient are dropped; gradients of parameters with need_clip=False are unchanged.

    Args:
        need_clip (callable, optional): of a parameter; False leaves its gradient unchanged, as in 1.8. A ParamAttr's
            `need_clip` has taken its place.

    Raises:
        TypeError: if `need_clip` cannot be called.
    """

    def __init__(self, need_clip: Callable[[Any], bool] | None = None) -> None:
        if need_clip is not None and not callable(need_clip):
            raise TypeError(
                f"{type(self).__name__}: need_clip must be a function of a parameter, got {type(need_clip).__name__}"
            )
        self._need_clip_func = need_clip

    def _wanted(self, param: Any) -> bool:
        chosen = getattr(self, "_need_clip_func", None)
        return _wanted(param) and (chosen is None or bool(chosen(param)))

    def __str__(self) -> str:
        raise NotImplementedError(f"'__str__' not implement in class {type(self).__name__}")

    def __call__(self, params_grads: Pairs) -> list[tuple[Any, Any]]:
        """Clips the gradients; in static mode appends operators to the Programs."""
        params_grads = list(params_grads)
        if not in_static_mode():
            with no_grad_():
                return self._dygraph_clip(params_grads)
        if any(getattr(p, "gradient_clip_attr", None) is not None for p, _ in params_grads):
            warnings.warn(
                "set_gradient_clip is ignored: a ParamAttr sets need_clip, which takes precedence",
                stacklevel=2,
            )
        with name_scope("gradient_clip"):
            clipped = self._static_clip(params_grads)
        _correct_clip_op_role_var(clipped)
        return clipped

    def _one(self, grad: Any) -> Any:
        """The clipped gradient, for clips that treat each gradient separately."""
        raise NotImplementedError(f"'_one' not implement in class {type(self).__name__}")

    def _dygraph_clip(self, params_grads: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        return [(p, self._one(g) if self._wanted(p) else g) for p, g in params_grads if g is not None]

    def _static_clip(self, params_grads: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        return _clip_each(params_grads, self._wanted, self._one)

    # The two passes of the deprecated set_gradient_clip: collect all gradients, then clip each.
    def _process_context(self, context: dict[str, Any], param: Any, grad: Any) -> None:
        return None

    def _create_operators(self, param: Any, grad: Any) -> tuple[Any, Any]:
        return param, self._one(grad)


def _wanted(param: Any) -> bool:
    return getattr(param, "need_clip", True) is not False


class ClipGradByValue(ClipGradBase):
    """Clips each element of the gradients to [min, max] (default: [-max, max], with max > 0).

    Examples:
        >>> import paddle
        >>> clip = paddle.nn.ClipGradByValue(max=0.5)
        >>> print(clip)
        Clip Gradient By Value, min = -0.500000, max=0.500000
    """

    def __init__(self, max: float, min: float | None = None, need_clip: Callable[[Any], bool] | None = None) -> None:
        super().__init__(need_clip)
        if min is None:
            assert max > 0.0
            min = -max
        self.max = float(max)
        self.min = float(min)

    def __str__(self) -> str:
        return f"Clip Gradient By Value, min = {self.min:f}, max={self.max:f}"

    def _one(self, grad: Any) -> Any:
        return _ops.clip(grad, min=self.min, max=self.max)


class ClipGradByNorm(ClipGradBase):
    """Scales each gradient whose L2 norm exceeds `clip_norm` to that norm.

    Examples:
        >>> import paddle
        >>> print(paddle.nn.ClipGradByNorm(clip_norm=1.0))
        Gradient Clip By Norm, clip_norm=1.000000
    """

    def __init__(self, clip_norm: float, need_clip: Callable[[Any], bool] | None = None) -> None:
        super().__init__(need_clip)
        self.clip_norm = float(clip_norm)

    def __str__(self) -> str:
        return f"Gradient Clip By Norm, clip_norm={self.clip_norm:f}"

    def _one(self, grad: Any) -> Any:
        return _ops.elementwise_mul(grad, _shrink(_ops.sqrt(_square_sum(grad)), self.clip_norm))


class ClipGradByGlobalNorm(ClipGradBase):
    """Scales all gradients by one factor so that their joint L2 norm is at most `clip_norm`.

    `group_name` only affects the deprecated `set_gradient_clip`: parameters of a group are clipped together.

    Examples:
        >>> import paddle
        >>> print(paddle.nn.ClipGradByGlobalNorm(clip_norm=1.0))
        Gradient Clip By GlobalNorm, global_norm=1.000000
    """

    def __init__(
        self,
        clip_norm: float,
        group_name: str = "default_group",
        need_clip: Callable[[Any], bool] | None = None,
    ) -> None:
        super().__init__(need_clip)
        self.clip_norm = float(clip_norm)
        self.group_name = group_name

    def __str__(self) -> str:
        return f"Gradient Clip By GlobalNorm, global_norm={self.clip_norm:f}"

    def _dygraph_clip(self, params_grads: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        wanted = [g for p, g in params_grads if g is not None and self._wanted(p)]
        if not wanted:
            return params_grads
        clipped = clip_all(wanted, self.clip_norm)
        if clipped is not None:
            rest = iter(clipped)
            return [(p, next(rest) if self._wanted(p) else g) for p, g in params_grads if g is not None]
        squares = [_square_sum(g) for g in wanted]
        norm = _ops.sqrt(_ops.reduce_sum(_ops.concat(squares, axis=0), reduce_all=True))
        factor = _shrink(norm, self.clip_norm)
        return [
            (p, _ops.elementwise_mul(g, factor) if self._wanted(p) else g) for p, g in params_grads if g is not None
        ]

    def _static_clip(self, params_grads: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        wanted = [(p, g) for p, g in params_grads if g is not None and self._wanted(p)]
        if not wanted:
            return params_grads
        squares = []
        for p, g in wanted:
            with p.block.program._optimized_guard([p, g]):
                squares.append(_square_sum(g))
        p, g = wanted[-1]
        with p.block.program._optimized_guard([p, g]):
            factor = _shrink(_ops.sqrt(_ops.sum(squares)), self.clip_norm)
        return _clip_each(params_grads, self._wanted, lambda g: _ops.elementwise_mul(g, factor))

    def _process_context(self, context: dict[str, Any], param: Any, grad: Any) -> None:
        group = context.setdefault(self.group_name, {"clip_norm": self.clip_norm, "squares": []})
        if group["clip_norm"] != self.clip_norm:
            raise ValueError("ClipGradByGlobalNorm: one group cannot have two values of clip_norm")
        group["squares"].append(_square_sum(grad))
        self._group = group

    def _create_operators(self, param: Any, grad: Any) -> tuple[Any, Any]:
        if "factor" not in self._group:
            self._group["factor"] = _shrink(_ops.sqrt(_ops.sum(self._group["squares"])), self.clip_norm)
        return param, _ops.elementwise_mul(grad, self._group["factor"])


@dygraph_not_support
def set_gradient_clip(clip: ClipGradBase, param_list: Any = None, program: Any = None) -> None:
    """Sets the clip of some parameters (default: all) of a static Program; must be called before `minimize`.

    Deprecated in favour of an optimizer's `grad_clip`. TypeError for a clip or parameters of another type.
    """
    warnings.warn(
        "set_gradient_clip is deprecated: pass grad_clip to the optimizer instead",
        stacklevel=3,
    )
    if not isinstance(clip, ClipGradBase):
        raise TypeError("clip must be of a class that derives from ClipGradBase")
    block = (default_main_program() if program is None else program).block(0)
    if any("optimizer" in op.attr("op_namescope") for op in block.ops if "op_namescope" in op.all_attrs()):
        warnings.warn(
            "set_gradient_clip has no effect after minimize; call it before",
            stacklevel=3,
        )
    params: list[Any] = block.all_parameters() if param_list is None else param_list
    params = [block.var(param) if isinstance(param, str) else param for param in params]
    if not all(isinstance(param, Parameter) for param in params):
        raise TypeError("param_list must hold Parameters or their names")
    for param in params:
        param.gradient_clip_attr = copy.deepcopy(clip)


def append_gradient_clip_ops(param_grads: Pairs) -> Any:
    """The pairs with gradients clipped as set by `set_gradient_clip`; unchanged if it was not called."""
    param_grads = list(param_grads)
    context: dict[str, Any] = {}
    wanted = [(p, g) for p, g in param_grads if g is not None]
    for p, g in wanted:
        clip = getattr(p, "gradient_clip_attr", None)
        if clip is None:
            return param_grads
        if not isinstance(clip, ClipGradBase):
            raise TypeError("clip attribute should be an instance of GradientClipBase")
        with p.block.program._optimized_guard([p, g]), name_scope("gradient_clip"):
            clip._process_context(context=context, param=p, grad=g)
    clipped = []
    for p, g in wanted:
        with p.block.program._optimized_guard([p, g]), name_scope("gradient_clip"):
            clipped.append(list(p.gradient_clip_attr._create_operators(param=p, grad=g)))
    _correct_clip_op_role_var(clipped)
    return clipped


def _correct_clip_op_role_var(params_grads: Iterable[Any]) -> None:
    """Renames gradients in the clip operators' op_role_var to the clipped ones, which data parallel passes reduce."""
    new_names = {p.name: g.name for p, g in params_grads if g is not None and _wanted(p)}
    if not new_names:
        return
    programs = {id(p.block.program): p.block.program for p, g in params_grads if g is not None}
    for program in programs.values():
        for op in program.global_block().ops:
            if not op.has_attr("op_namescope") or "gradient_clip" not in op.attr("op_namescope"):
                continue
            role_var = op.attr("op_role_var") if op.has_attr("op_role_var") else None
            if role_var and role_var[0] in new_names:
                op._set_attr("op_role_var", [role_var[0], new_names[role_var[0]]])


GradientClipBase = ClipGradBase
GradientClipByValue = ClipGradByValue
GradientClipByNorm = ClipGradByNorm
GradientClipByGlobalNorm = ClipGradByGlobalNorm
