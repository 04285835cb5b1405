"""Methods of the dygraph Tensor that are written in Python: values, gradients, copies, printing."""

from __future__ import annotations

import copy
from typing import Any

import paddle._core as _core
from paddle._basics import mode, unique_name
from paddle._basics import numpy as np
from paddle._basics.default_dtype import get_default_dtype
from paddle._basics.dtypes import VarType, convert_dtype, convert_np_dtype_to_dtype_, regular_array, why_irregular
from paddle._basics.mode import _get_paddle_place, in_static_mode
from paddle._basics.place import CPUPlace, CUDAPinnedPlace, CUDAPlace, device_number
from paddle._basics.to_string import to_string
from paddle._programs import building
from paddle._programs.guards import default_main_program
from paddle._programs.parameter import ParamBase
from paddle._programs.variable import Parameter, Variable

from .foreign import foreign_array
from .html import tensor_html

Tensor = _core.Tensor

__all__: list[str] = []

_FLOATS = frozenset(("f", "c"))


def to_tensor(data, dtype=None, place=None, stop_gradient=True) -> Tensor:
    """A Tensor with the values of `data`.

    Args:
        data (scalar|list|tuple|numpy.ndarray|memoryview|Tensor|object): the values; a Tensor is returned as it is if
            nothing changes. Of other libraries (torch, jax, pandas, Arrow, polars, Pillow) what has `__dlpack__`,
            `__array__` or `__array_interface__` is copied, with its element type.
        dtype (str|numpy.dtype, optional): element type; by default that of `data`, for floats `get_default_dtype()`.
        place (CPUPlace|CUDAPlace|str, optional): the device; by default that of `paddle.set_device`.
        stop_gradient (bool): whether the Tensor is excluded from gradients.

    Returns:
        Tensor: of the shape of `data`; a Python number gives shape [1], a zero-dimensional array shape [].

    Raises:
        TypeError: for values that are not numeric.
        ValueError: for nested lists of different lengths.

    Examples:
        >>> import paddle
        >>> paddle.to_tensor([[1, 2], [3, 4]])
        Tensor(shape=[2, 2], dtype=int64, place=CPUPlace, stop_gradient=True,
               [[1, 2],
                [3, 4]])
    """
    if building.current is not None and mode.in_static_mode():
        return building.current.to_tensor(data, dtype)
    if place is None and not _core.has_backend():
        return _on_cpu(data, dtype, stop_gradient)
    place = mode._current_expected_place() if place is None else _get_paddle_place(place)
    _check_place(place)
    made = _on_cpu(data, dtype, stop_gradient)
    device = device_number(place)
    return made if _core.device_of(made) == device else _core.copy_to_device(made, device)


def _on_cpu(data, dtype, stop_gradient):
    if not isinstance(data, np.ndarray):
        if isinstance(data, Tensor):
            data.stop_gradient = stop_gradient
            if dtype is not None and convert_dtype(dtype) != data._dtype_name:
                return data.astype(dtype)
            return data
        data = _as_array(data, dtype)
        if isinstance(data, Tensor):
            data.stop_gradient = stop_gradient
            return data if dtype is None or convert_dtype(dtype) == data._dtype_name else data.astype(dtype)
    if dtype is not None:
        name = convert_dtype(dtype)
        if name == "bfloat16":
            return _core.tensor_from_array(data.astype("float32"), stop_gradient).astype(dtype)
        if name != data.dtype.name:
            data = data.astype(name)
    return _core.tensor_from_array(data, stop_gradient)


def _as_array(data, dtype) -> Any:
    if isinstance(data, (list, tuple)):
        array = regular_array(data)
        if array is None:
            raise ValueError(f"to_tensor: data does not make one array: {why_irregular(data)}")
    elif isinstance(data, memoryview):
        array = np.asarray(data)
    elif np.isscalar(data) and not isinstance(data, (str, bytes)):
        array = np.array([data])
    elif isinstance(data, _core.LoDTensor):
        return np.array(data)
    else:
        array = foreign_array(data)
        if array is None:
            raise TypeError(
                f"to_tensor: data must be a scalar, list, tuple, numpy.ndarray or paddle.Tensor, got {type(data)}"
            )
        return array
    if dtype is None and array.dtype.kind in _FLOATS:
        default = get_default_dtype()
        if array.dtype.kind == "c":
            default = "complex64" if default in ("float16", "float32") else "complex128"
        array = array.astype(default)
    return array


def _check_place(place) -> None:
    if not isinstance(place, (CPUPlace, CUDAPlace, CUDAPinnedPlace)):
        raise ValueError("to_tensor: place must be a paddle.CPUPlace, CUDAPlace or CUDAPinnedPlace")


def astype(self, dtype) -> Tensor:
    """A Tensor with the elements converted to `dtype` (str, numpy dtype or VarType)."""
    if not isinstance(dtype, VarType):
        dtype = convert_np_dtype_to_dtype_(dtype)
    return _core.ops.cast(self, in_dtype=self.dtype, out_dtype=dtype)


def _retains(retain_graph: Any) -> Any:
    """`retain_graph`; False for a BackwardStrategy, which 1.x takes in its place."""
    return False if hasattr(retain_graph, "sort_sum_gradient") else retain_graph


def backward(self, retain_graph=False, backward_strategy=None) -> None:
    """Compute gradients of this Tensor; they are added to the gradients of the leaves.

    Args:
        retain_graph (bool): keep the graph, so that backward can run again. A `BackwardStrategy` of 1.x is accepted
            in its place, and has no effect.
        backward_strategy: the argument's name in 1.x.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([2.0], stop_gradient=False)
        >>> (x * x).backward()
        >>> x.grad
        array([4.], dtype=float32)
    """
    if in_static_mode():
        raise ValueError("backward() requires dygraph mode")
    _core.run_backward([self], [], _retains(retain_graph))


def gradient(self) -> Any:
    """The gradient as a numpy array (SelectedRows: the values and the rows), or None."""
    var = self._grad_ivar()
    if var is None:
        return None
    if var.type == VarType.SELECTED_ROWS:
        rows = var.value().get_selected_rows()
        return np.array(rows.get_tensor()), np.array(rows.rows())
    return var.numpy()


def set_value(self, value) -> None:
    """Replace the elements by those of `value`, an array or Tensor of the same shape and dtype.

    Gradients of earlier operators that need the elements before are refused, except where this is a Parameter.
    """
    assert isinstance(value, (np.ndarray, Tensor, dict, str)), "set_value: value must be a Tensor or an ndarray"
    shape, dtype = tuple(self.shape), convert_dtype(self.dtype)
    if isinstance(value, Tensor):
        given, got = tuple(value.shape), convert_dtype(value.dtype)
    else:
        value = np.asarray(value)
        given, got = value.shape, "bfloat16" if value.dtype == np.uint16 else value.dtype.name
    assert shape == given, f"set_value: '{self.name}' has shape {shape}, but the value has {given}"
    assert dtype == got, f"set_value: '{self.name}' has dtype {dtype}, but the value has {got}"
    _overwrite(self, value)


def _overwrite(self, value) -> None:
    """Assigns `value`, and counts the change, so that a gradient of the elements before is an error.

    Parameters are not counted: programs swap them between forward and backward (averages for evaluation, and back).
    """
    self._assign(value)
    if not self.persistable or not self.is_leaf:
        self._bump_inplace_version()


def copy_(self, src, blocking=True) -> None:
    """Replace the value by a copy of that of `src`; gradients as for `set_value`."""
    _overwrite(self, src)


def clone(self) -> Tensor:
    """A copy; gradients flow through it."""
    return _core.ops.assign(self)


def cpu(self) -> Tensor:
    """A new Tensor in CPU memory, outside of the tape."""
    return _copy_to(self, CPUPlace(), True)


def cuda(self, device_id=-1, blocking=True) -> Tensor:
    """This Tensor in the memory of a GPU, by default the current or first one; itself if it is there already.

    Raises:
        RuntimeError: with the reason, if no GPU can be used.
    """
    current = max(0, device_number(mode._current_expected_place()), _core.device_of(self))
    place = CUDAPlace(current if device_id < 0 else device_id)
    return self if _core.device_of(self) == place.get_device_id() else _copy_to(self, place, blocking)


def pin_memory(self) -> Tensor:
    """A copy in pinned CPU memory; RuntimeError if there is no GPU."""
    return _copy_to(self, CUDAPinnedPlace(), True)


def _copy_to(self, place, blocking):
    _check_place(place)
    new = Tensor()
    new._share_value(_core.copy_to_device(self, device_number(place)))
    new.stop_gradient = self.stop_gradient
    new.name = self.name
    return new


def place(self) -> Any:
    """The device that holds the elements."""
    device = _core.device_of(self)
    return CPUPlace() if device < 0 else CUDAPlace(device)


def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise RuntimeError("deepcopy: only a leaf Tensor can be copied; this Tensor is part of a gradient graph")
    new = Tensor()
    new.name = self.name + unique_name.generate("_deepcopy")
    new.stop_gradient = self.stop_gradient
    new.persistable = self.persistable
    new.__dict__.update(copy.deepcopy(self.__dict__, memo))
    memo[id(self)] = new
    if self.type == VarType.SELECTED_ROWS:
        return _copy_rows(self, new)
    if self._is_initialized():
        new._assign(self)
    return new


def _copy_rows(tensor, like):
    """A copy of the SelectedRows Tensor `tensor`, with the name and state of `like`."""
    new = Tensor(tensor.dtype, list(tensor.shape), like.name, VarType.SELECTED_ROWS, like.persistable)
    new.stop_gradient = like.stop_gradient
    new.__dict__.update(like.__dict__)
    rows, copied = tensor.value().get_selected_rows(), new.value().get_selected_rows()
    copied.get_tensor().set(np.array(rows.get_tensor()), CPUPlace())
    copied.set_height(rows.height())
    copied.set_rows(list(rows.rows()))
    return new


def _to_static_var(self, to_parameter=False, **kwargs):
    """A static Variable like this Tensor, in the default main program.

    Args:
        to_parameter (bool): return a Parameter; a dygraph parameter always does.
        **kwargs: attributes to override.
    """
    parameter = isinstance(self, ParamBase)
    attrs = {"trainable": not self.stop_gradient, **self.__dict__} if parameter else {}
    attrs.update(
        block=self.block,
        shape=self.shape,
        dtype=self.dtype,
        type=self.type,
        name=self.name,
        stop_gradient=self.stop_gradient,
        persistable=self.persistable,
    )
    attrs.update(kwargs)
    if not (to_parameter or parameter):
        return Variable(**attrs)
    del attrs["persistable"]
    made = Parameter(**attrs)
    made.is_distributed = attrs.get("is_distributed", False)
    return made


def _rebuild(array, dtype, name, stop_gradient, persistable):
    tensor = to_tensor(array, stop_gradient=stop_gradient)
    if dtype == "bfloat16":
        tensor = _core.tensor_from_array(array, stop_gradient)
    tensor.name, tensor.persistable = name, persistable
    return tensor


def __reduce__(self):
    return _rebuild, (self.numpy(), self._dtype_name, self.name, self.stop_gradient, self.persistable)


def __array__(self, dtype=None, copy=None):
    array = self.numpy()
    return array if dtype is None else array.astype(dtype)


def _with_arrays(value):
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, (list, tuple)):
        return type(value)([_with_arrays(v) for v in value])
    return value


def __array_function__(self, func, types, args, kwargs):
    """Apply numpy's functions to Tensors as arrays; functions that write into an argument are refused."""
    writers = (np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis)
    if func in writers or isinstance(kwargs.get("out"), Tensor):
        return NotImplemented
    return func(*_with_arrays(args), **{k: _with_arrays(v) for k, v in kwargs.items()})


def __format__(self, spec):
    """The text of an f-string: with a format, that of the only element."""
    if not spec:
        return str(self)
    if self.size != 1:
        raise TypeError(
            f"the format {spec!r} is for a Tensor of one element, got shape {self.shape}; format its tolist()"
        )
    return format(self.item(), spec)


def __iter__(self):
    for i in range(len(self)):
        yield self[i]


def __reversed__(self):
    for i in reversed(range(len(self))):
        yield self[i]


def _block(self):
    return default_main_program().global_block()


def _set_grad_type(self, type):  # noqa: A002
    """Checks the variable type of a gradient (LoDTensor or SelectedRows); the operator determines the actual one."""
    if type not in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS):
        raise TypeError(f"the gradient of {self.name} is a LoDTensor or SelectedRows, got {type!r:.100}")


_METHODS = (
    astype,
    backward,
    gradient,
    set_value,
    copy_,
    clone,
    cpu,
    cuda,
    pin_memory,
    _copy_to,
    _set_grad_type,
    __deepcopy__,
    __reduce__,
    __array__,
    __array_function__,
    __format__,
    __iter__,
    __reversed__,
    _to_static_var,
)


def monkey_patch_math_varbase() -> None:
    """Install the methods written in Python on the native class; repeated calls change nothing."""
    cls: Any = Tensor  # the stub does not know what is added here
    for method in _METHODS:
        setattr(cls, method.__name__, method)
    cls.grad = property(gradient, doc="The gradient of a leaf as a numpy array, or None.")
    cls.place = property(place, doc="The device that holds the elements.")
    cls._place_str = property(lambda self: str(self.place))
    cls.block = property(_block, doc="The first block of the default main Program, as Variables have one.")
    cls.__str__ = cls.__repr__ = to_string
    cls._repr_html_ = tensor_html
    cls.__nonzero__ = cls.__bool__
    cls.__long__ = cls.__int__
    cls.__div__, cls.__rdiv__ = cls.__truediv__, cls.__rtruediv__


monkey_patch_math_varbase()
