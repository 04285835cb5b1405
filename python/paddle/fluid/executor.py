"""paddle.fluid.executor."""

from paddle._programs.scope import _switch_scope, global_scope, scope_guard
from paddle.static.datasets import FetchHandler, FetchHandlerMonitor
from paddle.static.executor import Executor, _fetch_var
from paddle.static.feed import (  # noqa: F401 (tests and user code import them from here)
    _as_lodtensor,
    _to_name_str,
    as_numpy,
    check_feed_shape_type,
    dimension_is_compatible_with,
    dtype_is_compatible_with,
    has_feed_operators,
    has_fetch_operators,
)

__all__ = [
    "Executor",
    "global_scope",
    "scope_guard",
    "_fetch_var",
    "_switch_scope",
    "as_numpy",
    "FetchHandler",
    "FetchHandlerMonitor",
]
