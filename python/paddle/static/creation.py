"""create_parameter, create_global_var, data, InputSpec."""

from __future__ import annotations

import numbers

import numpy as np

import paddle._core as core
from paddle._basics import mode
from paddle._basics.checks import check_dtype, check_type
from paddle._basics.dtypes import VarType, convert_dtype, convert_np_dtype_to_dtype_
from paddle._basics.mode import static_only
from paddle._programs.variable import Variable
from paddle.nn.initializer.base import Constant, Initializer
from paddle.nn.layer_helper import LayerHelper
from paddle.nn.layer_helper_base import LayerHelperBase
from paddle.nn.param_attr import ParamAttr

__all__ = ["create_parameter", "create_global_var", "data", "InputSpec"]

_DTYPES = ["bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"]


def _check_shape(shape, where: str) -> list[int]:
    check_type(shape, "shape", (list, tuple, np.ndarray), where)
    for item in shape:
        check_type(item, "item of shape", (int, np.integer), where)
    return [int(n) for n in shape]


def create_parameter(shape, dtype, name=None, attr=None, is_bias=False, default_initializer=None):
    """A trainable parameter.

    Args:
        shape (list|tuple of int): its shape.
        dtype (str): its element type.
        name (str, optional): its name, unless `attr` has one.
        attr (ParamAttr, optional): its attributes.
        is_bias (bool): initialised with zeros instead of Xavier's rule.
        default_initializer (Initializer, optional): used when `attr` has none.

    Returns:
        Parameter.

    Raises:
        TypeError: for other types of arguments.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> paddle.static.create_parameter([784, 200], "float32").shape
        (784, 200)
    """
    shape = _check_shape(shape, "create_parameter")
    check_dtype(dtype, "dtype", _DTYPES, "create_parameter")
    check_type(attr, "attr", (type(None), ParamAttr), "create_parameter")
    check_type(default_initializer, "default_initializer", (type(None), Initializer), "create_parameter")
    helper = LayerHelper("create_parameter", name=name)
    if attr is None:
        attr = ParamAttr(name=name)
    return helper.create_parameter(attr, shape, convert_dtype(dtype), is_bias, default_initializer)


def create_global_var(shape, value, dtype, persistable=False, force_cpu=False, name=None):
    """A variable of the global block, which the startup program sets to `value`.

    Args:
        shape (list|tuple of int): its shape.
        value (float): its initial value.
        dtype (str): its element type.
        persistable (bool): keep it between runs.

    Returns:
        Variable, without a gradient.
    """
    shape = _check_shape(shape, "create_global_var")
    check_dtype(dtype, "dtype", _DTYPES, "create_global_var")
    helper = LayerHelper("global_var", name=name)
    var = helper.create_global_variable(
        dtype=dtype, shape=shape, persistable=persistable, name=name, stop_gradient=True
    )
    helper.set_variable_initializer(var, initializer=Constant(value=float(value), force_cpu=force_cpu))
    return var


def data_variable(name, shape, dtype, lod_level, need_check_feed=True, type=VarType.LOD_TENSOR, stop_gradient=True):  # noqa: A002, E501
    """A variable to feed."""
    check_type(name, "name", (str, bytes), "data")
    check_type(shape, "shape", (list, tuple), "data")
    helper = LayerHelper("data", name=name)
    return helper.create_global_variable(
        name=name,
        shape=[-1 if n is None else n for n in shape],
        dtype=dtype,
        type=type,
        stop_gradient=stop_gradient,
        lod_level=lod_level,
        is_data=True,
        need_check_feed=need_check_feed,
    )


@static_only
def data(name, shape, dtype=None, lod_level=0):
    """A Variable to feed to ``Executor.run``.

    Args:
        name (str): its name in the feed.
        shape (list|tuple): None or -1 for an arbitrary size.
        dtype (str, optional): bool, float16/32/64, int8/16/32/64, uint8; the default type when None.
        lod_level (int): levels of sequence nesting.

    Returns:
        Variable. A run raises ValueError when the fed array has another shape or type.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> paddle.static.data("image", [None, 3, 224, 224], "float32").shape
        (-1, 3, 224, 224)
    """
    return data_variable(name, shape, dtype or LayerHelperBase.get_default_dtype(), lod_level)


class InputSpec:
    """The specification of a model's input: shape, element type, name.

    Args:
        shape (tuple|list): None or -1 for an arbitrary size.
        dtype: VarType, numpy type or name.
        name (str, optional): a name.

    Examples:
        >>> import paddle
        >>> paddle.static.InputSpec([None, 784], "float32", "x").shape
        (-1, 784)
    """

    def __init__(self, shape, dtype="float32", name=None) -> None:
        self.shape = self._verify(shape)
        self.dtype = None if dtype is None else convert_np_dtype_to_dtype_(dtype)
        self.name = name

    def _create_feed_layer(self):
        return data(self.name, shape=self.shape, dtype=self.dtype)

    @classmethod
    def from_tensor(cls, tensor, name=None) -> InputSpec:
        """The spec of `tensor`; ValueError when it is no Tensor."""
        if not issubclass(type(tensor), (Variable, core.Tensor)):
            raise ValueError(f"InputSpec.from_tensor: tensor must be a Tensor, got {type(tensor).__name__}")
        return cls(tensor.shape, tensor.dtype, name or tensor.name)

    @classmethod
    def from_numpy(cls, ndarray, name=None) -> InputSpec:
        """The spec of an array."""
        return cls(ndarray.shape, ndarray.dtype, name)

    def batch(self, batch_size) -> InputSpec:
        """Put a batch dimension first; returns itself.

        Raises:
            TypeError: when `batch_size` is no int. ValueError: for a list whose length is not 1.
        """
        if isinstance(batch_size, (list, tuple)):
            if len(batch_size) != 1:
                raise ValueError(f"InputSpec.batch: a list must hold one size, got {batch_size!s:.200}")
            batch_size = batch_size[0]
        if not isinstance(batch_size, numbers.Integral):
            raise TypeError(f"InputSpec.batch: batch_size must be an int, got {type(batch_size).__name__}")
        self.shape = (int(batch_size), *self.shape)
        return self

    def unbatch(self) -> InputSpec:
        """Drop the first dimension; returns itself. ValueError for an empty shape."""
        self.shape = self._verify(self.shape[1:])
        return self

    @staticmethod
    def _verify(shape) -> tuple:
        if not isinstance(shape, (list, tuple)):
            raise TypeError(f"InputSpec: shape must be a tuple or list, got {type(shape).__name__}")
        if len(shape) == 0:
            raise ValueError(f"InputSpec: shape must have an entry, got {shape!s:.200}")
        for i, size in enumerate(shape):
            if size is not None and not isinstance(size, numbers.Integral):
                raise ValueError(f"shape[{i}] should be int or None, but received {type(size).__name__}:{size!s:.200}.")
        return tuple(-1 if n is None or n < -1 else int(n) for n in shape)

    def __repr__(self) -> str:
        return f"InputSpec(shape={self.shape}, dtype={self.dtype}, name={self.name})"

    def __hash__(self) -> int:
        # a spec is a key of a cache of programs, which ignores names
        return hash((tuple(self.shape), self.dtype))

    def __eq__(self, other) -> bool:
        return type(self) is type(other) and (self.shape, self.dtype, self.name) == (
            other.shape,
            other.dtype,
            other.name,
        )

    def __ne__(self, other) -> bool:
        return not self == other


def autoincreased_step_counter(counter_name=None, begin=1, step=1):
    """An int64 variable that is `begin` in the first run and grows by `step` at each later run.

    Args:
        counter_name (str, optional): ``@STEP_COUNTER@`` when None; equal names share one variable.
    """
    mode.choose_static()
    helper = LayerHelper("global_step_counter")
    counter, is_new = helper.create_or_get_global_variable(
        name=counter_name or "@STEP_COUNTER@", dtype="int64", shape=[1], persistable=True, belong_to_optimizer=True
    )
    if is_new:
        helper.set_variable_initializer(counter, initializer=Constant(value=begin - 1, force_cpu=True))
        helper.main_program.global_block()._prepend_op(
            type="increment", inputs={"X": [counter]}, outputs={"Out": [counter]}, attrs={"step": float(step)}
        )
        counter.stop_gradient = True
    return counter
