"""ParamBase: a parameter in dygraph mode."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable

import paddle._core as core
from paddle._basics import mode, unique_name
from paddle._basics.dtypes import VarType, convert_np_dtype_to_dtype_

__all__: list[str] = []


class _Deferring(threading.local):
    """`on`: parameters that this thread creates get their values by `ParamBase.initialize` (paddle.LazyGuard)."""

    on = False


deferring = _Deferring()


def check_parameter_shape(shape, dtype) -> None:
    """ValueError unless shape and dtype of a parameter are valid, by the rules of 2.0.2."""
    if shape is None:
        raise ValueError("Parameter: shape must be given")
    if dtype is None:
        raise ValueError("Parameter: dtype must be given")
    if len(shape) == 0:
        raise ValueError("Parameter: shape must have at least one dimension")
    for size in shape:
        if size < 0:
            raise ValueError(f"Parameter: every size in shape must be positive, got {list(shape)}")


class ParamBase(core.Tensor):
    """A Tensor that training changes.

    Args:
        shape (sequence of int): at least one dimension.
        dtype: its element type.
        name (str, optional): made up when absent.
        trainable (bool): False sets stop_gradient.
        optimize_attr (dict), regularizer, do_model_average, need_clip: as in ParamAttr.

    Raises:
        ValueError: when shape or dtype is missing, empty or negative.
    """

    def __new__(cls, shape, dtype, **kwargs):
        assert not mode.in_static_mode(), "We only support 'ParamBase' in dynamic graph mode"
        check_parameter_shape(shape, dtype)
        name = kwargs.get("name") or unique_name.generate("_param_base")
        dtype = convert_np_dtype_to_dtype_(dtype)
        return super().__new__(cls, dtype, list(shape), name, VarType.LOD_TENSOR, True)

    def __init__(self, shape, dtype, **kwargs):
        self.stop_gradient = not kwargs.get("trainable", True)
        self.optimize_attr = kwargs.get("optimize_attr", {"learning_rate": 1.0})
        self.regularizer = kwargs.get("regularizer")
        self.do_model_average = kwargs.get("do_model_average")
        self.need_clip = kwargs.get("need_clip", True)
        self.is_distributed = False
        # Gives a deferred parameter its values.
        self.init_func: Callable[[ParamBase], object] | None = None

    def initialize(self) -> None:
        """Runs the initializer of a parameter that was created under `paddle.LazyGuard`; no effect on others."""
        if self.init_func is not None:
            self.init_func(self)
            self.init_func = None

    @property
    def trainable(self) -> bool:
        """Whether training changes it: not stop_gradient."""
        return not self.stop_gradient

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        if not isinstance(trainable, bool):
            raise ValueError(f"ParamBase: trainable must be a bool, got {type(trainable)}")
        self.stop_gradient = not trainable

    def __str__(self) -> str:
        return f"Parameter containing:\n{super().__str__()}"

    __repr__ = __str__

    def __deepcopy__(self, memo):
        state = copy.deepcopy(self.__dict__, memo)
        state["name"] = self.name + unique_name.generate("_deepcopy")
        state["trainable"] = self.trainable
        new = ParamBase(self.shape, self.dtype, **state)
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
        memo[id(self)] = new
        if self._is_initialized():
            new.copy_(self, True)
        return new

    def __reduce__(self):
        state = {"trainable": self.trainable, **self.__dict__, "init_func": None}
        return _rebuild_parameter, (self.numpy(), self.name, state)


def _rebuild_parameter(array, name, state):
    if not mode.in_static_mode():
        param = ParamBase(array.shape, array.dtype, name=name, trainable=state.pop("trainable"))
        param.__dict__.update(state)
        param.set_value(array)
        return param
    return array
