"""Programs of servers (`paddle.fluid.transpiler.server_side`)."""

from __future__ import annotations

from paddle.fluid.transpiler.server_side import optimizer_input_shape as _get_optimizer_input_shape

__all__: list[str] = []
_ALSO = (_get_optimizer_input_shape,)
