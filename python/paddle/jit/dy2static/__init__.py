"""paddle.jit.dy2static: what translated functions call."""

from . import convert_call_func, convert_operators, runtime, variable_trans_func  # noqa: F401
from .convert_call_func import *  # noqa: F403
from .convert_operators import *  # noqa: F403
from .variable_trans_func import *  # noqa: F403

__all__ = [*convert_operators.__all__, *convert_call_func.__all__, *variable_trans_func.__all__]
