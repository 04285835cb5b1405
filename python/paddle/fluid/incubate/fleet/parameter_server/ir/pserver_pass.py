"""Programs of servers (`paddle.distributed.ps.server_program`)."""

from __future__ import annotations

from paddle.distributed.ps.server_program import optimizer_input_shape as _get_optimizer_input_shape

__all__: list[str] = []
_ALSO = (_get_optimizer_input_shape,)
