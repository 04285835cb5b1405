"""LayerObjectHelper: appends the operators of Paddle 1.x's Layer classes."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle.nn.layer_helper_base import LayerHelperBase

__all__ = ["LayerObjectHelper"]


class LayerObjectHelper(LayerHelperBase):
    """Appends operators for a layer called `name` (runs them in dygraph mode)."""

    def __init__(self, name: str) -> None:
        super().__init__(name, layer_type=name)

    def append_op(
        self,
        type: Any = None,
        inputs: Any = None,
        outputs: Any = None,
        attrs: Any = None,
        stop_gradient: Any = None,  # noqa: A002
    ) -> Any:
        """Append an operator to the current block."""
        return self.main_program.current_block().append_op(
            type=type, inputs=inputs, outputs=outputs, attrs=attrs, stop_gradient=stop_gradient
        )

    def append_bias_op(self, input_var: Any, bias: Any, dim_start: int = 1, dim_end: int | None = None) -> Any:
        """`input_var` plus `bias`, whose dimensions start at `dim_start`."""
        return _ops.elementwise_add(input_var, bias, axis=dim_start)

    def append_activation(
        self, input_var: Any, act: str | None = None, use_cudnn: bool | None = None, use_mkl_dnn: bool | None = None
    ) -> Any:
        """The activation operator `act` applied to `input_var`; `input_var` for None, TypeError unless a str."""
        if act is None:
            return input_var
        if not isinstance(act, str):
            raise TypeError(f"{act} should be a str")
        return getattr(_ops, act)(input_var)
