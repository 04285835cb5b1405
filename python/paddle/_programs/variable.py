"""Variable, a named value of a static Program; and Parameter, a Variable that training changes."""

from __future__ import annotations

from typing import Any

import paddle._core as core
from paddle._basics import mode, unique_name
from paddle._basics.dtypes import VarType, convert_np_dtype_to_dtype_
from paddle._basics.mode import fake_interface_only
from paddle._basics.names import grad_var_name

from . import building
from .parameter import ParamBase, check_parameter_shape
from .text import var_gaps, var_text, whole

__all__: list[str] = []


class VariableMetaClass(type):
    """``isinstance(x, Variable)`` is True for Tensors in dygraph mode, for Variables in static mode."""

    def __instancecheck__(cls, instance: Any) -> bool:
        kind = type(instance)
        return issubclass(kind, Variable if mode.in_static_mode() else core.Tensor)


class ParameterMetaClass(VariableMetaClass):
    """``isinstance(x, Parameter)`` is True for ParamBase in dygraph mode, for Parameters in static mode."""

    def __instancecheck__(cls, instance: Any) -> bool:
        kind = type(instance)
        if not mode.in_static_mode():
            return issubclass(kind, ParamBase)
        return issubclass(kind, Parameter)


class Variable(metaclass=VariableMetaClass):
    """A named value of a Block: an input or output of operators.

    Created by :meth:`Block.create_var` and API functions; not by calling the class.

    Args:
        block (Block): the owner.
        type: the kind; LOD_TENSOR by default.
        name (str, optional): unique in the block; generated when None.
        shape (sequence of int, optional): -1 for a size that is known only at run time.
        dtype: VarType, numpy type or name.
        lod_level (int, optional): levels of sequence nesting.
        persistable (bool, optional): whether it is kept after a run.

    Raises:
        ValueError: when the block has the variable already, with other properties.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> block = paddle.static.Program().current_block()
        >>> v = block.create_var(name="X", shape=[-1, 23, 48], dtype="float32")
        >>> v.shape
        (-1, 23, 48)
    """

    def __init__(
        self,
        block,
        type=VarType.LOD_TENSOR,  # noqa: A002 (Paddle's name)
        name=None,
        shape=None,
        dtype=None,
        lod_level=None,
        capacity=None,
        persistable=None,
        error_clip=None,
        stop_gradient=False,
        is_data=False,
        need_check_feed=False,
        belong_to_optimizer=False,
        **kwargs,
    ):
        self.block = block
        if name is None:
            name = unique_name.generate("_generated_var")
        elif isinstance(name, bytes):
            name = name.decode()
        self.belong_to_optimizer = belong_to_optimizer
        self.error_clip = error_clip
        desc = block.desc.find_var(name)
        is_new = desc is None
        self.desc = block.desc.var(name) if is_new else desc
        if is_new:
            self.desc.set_type(type)
        elif self.desc.type() != type:
            self._mismatch("type", self.desc.type(), type)
        if shape is not None:
            shape = tuple(shape)
            if is_new:
                self.desc.set_shape(shape)
            elif shape != self.shape:
                self._mismatch("shape", self.shape, shape)
        if dtype is not None:
            dtype = convert_np_dtype_to_dtype_(dtype)
            if is_new:
                self.desc.set_dtype(dtype)
            elif dtype != self.dtype:
                self._mismatch("data type", self.dtype, dtype)
        if lod_level is not None:
            if is_new:
                self.desc.set_lod_level(lod_level)
            elif lod_level != self.lod_level:
                self._mismatch("lod_level", self.lod_level, lod_level)
        if persistable is not None:
            if is_new:
                self.desc.set_persistable(persistable)
            elif persistable != self.persistable:
                self._mismatch("persistable", self.persistable, persistable)
        if need_check_feed and is_new:
            self.desc.set_need_check_feed(True)
        block.vars[name] = self
        self.op = None
        self._stop_gradient = stop_gradient
        self.is_data = is_data

    def _mismatch(self, what: str, old, new) -> None:
        raise ValueError(
            f"Variable {self.desc.name()} has been created before. The previous {what} is {old}; "
            f"the new {what} is {new}. They are not matched"
        )

    # ------------------------------------------------------------------ methods of dygraph tensors only

    def detach(self):
        """A Variable with the same value, which stops gradients; while to_static builds a Program, else an error."""
        if building.current is None or not mode.in_static_mode():
            return self._detach()
        out = self.clone()
        out.stop_gradient = True
        return out

    @fake_interface_only
    def _detach(self):
        """Only a dygraph tensor has it."""

    _detach.__name__ = "detach"

    @fake_interface_only
    def numpy(self):
        """Only a dygraph tensor has it."""

    def __bool__(self) -> bool:
        """True; TypeError while to_static builds a Program: the value is not known."""
        if building.current is not None and mode.in_static_mode():
            raise building.current.no_value("bool()")
        return True

    @fake_interface_only
    def set_value(self, value):
        """Only a dygraph tensor has it."""

    @fake_interface_only
    def backward(self, retain_graph=False, backward_strategy=None):
        """Only a dygraph tensor has it."""

    @fake_interface_only
    def gradient(self):
        """Only a dygraph tensor has it."""

    @fake_interface_only
    def clear_gradient(self):
        """Only a dygraph tensor has it."""

    # ------------------------------------------------------------------ text

    def __str__(self) -> str:
        return self._to_readable_code()

    __repr__ = __str__

    def _to_readable_code(self) -> str:
        if self.type in (VarType.SELECTED_ROWS, VarType.LOD_TENSOR):
            text = f"{self.name} : paddle.{self.type}.shape{self.shape}.astype({self.dtype})"
        else:
            text = f"{self.name} : paddle.{self.type})"
        if isinstance_of(self, Parameter):
            text = ("trainable param " if self.trainable else "param ") + text  # type: ignore[attr-defined]  # only Parameters have it
        else:
            text = "var " + text
        return "persist " + text if self.persistable else text

    def to_string(self, throw_on_error, with_details=False) -> str:
        """The variable as protobuf text; with details also attributes that only Python has.

        Raises:
            ValueError: with `throw_on_error`, when it has a shape or LoD level but no element type.
        """
        assert isinstance(throw_on_error, bool) and isinstance(with_details, bool)
        text = whole(self.desc, var_text, var_gaps, throw_on_error)
        if with_details:
            text += f"error_clip: {self.error_clip}\nstop_gradient: {self.stop_gradient}\n"
        return text

    # ------------------------------------------------------------------ properties

    @property
    def stop_gradient(self) -> bool:
        """Whether gradients end here."""
        return self._stop_gradient

    @stop_gradient.setter
    def stop_gradient(self, value) -> None:
        self._stop_gradient = value
        if building.current is not None:
            building.current.derived.discard(self.name)

    @property
    def persistable(self) -> bool:
        """Whether the value is kept in the Scope after a run."""
        return self.desc.persistable()

    @persistable.setter
    def persistable(self, value) -> None:
        self.desc.set_persistable(value)

    @property
    def name(self) -> str:
        return self.desc.name()

    @name.setter
    def name(self, new_name) -> None:
        self.desc.set_name(new_name)

    @property
    def grad_name(self) -> str:
        """The name of its gradient variable."""
        return grad_var_name(self.name)

    @property
    def shape(self) -> tuple:
        """The sizes; -1 for a size that is known only at run time."""
        return tuple(self.desc.shape())

    @property
    def dtype(self):
        return self.desc.dtype()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    ndimension = dim

    @property
    def lod_level(self) -> int:
        if self.type == VarType.SELECTED_ROWS:
            raise Exception("SelectedRows do not have a LoD")
        return self.desc.lod_level()

    @property
    def type(self):
        return self.desc.type()

    def clone(self) -> Variable:
        """A new Variable with the same value; differentiable."""
        block = self.block.program.current_block()  # of a loop's body, where it is called in one
        output = block.create_var(
            name=unique_name.generate_with_ignorable_key(self.name + "_clone"),
            dtype=self.dtype,
            type=self.type,
            persistable=self.persistable and building.current is None,
            stop_gradient=self.stop_gradient,
        )
        block.append_op(type="assign", inputs={"X": [self]}, outputs={"Out": [output]})
        return output

    def _set_error_clip(self, error_clip) -> None:
        self.error_clip = error_clip

    def _set_info(self, key, value) -> None:
        self.__dict__.setdefault("_info", {})[key] = value

    def _get_info(self, key):
        return self.__dict__.get("_info", {}).get(key)

    # otherwise Python iterates by __getitem__(0), (1), ... without end
    __iter__ = None


class Parameter(Variable, metaclass=ParameterMetaClass):
    """A persistable Variable that an optimizer changes.

    Args:
        block (Block): the global block.
        shape (sequence of int): no dimension may be unknown.
        dtype: its element type.
        trainable (bool), optimize_attr (dict), regularizer, do_model_average, need_clip: as in ParamAttr.

    Raises:
        ValueError: when shape or dtype is missing, empty or negative.
    """

    def __init__(self, block, shape, dtype, type=VarType.LOD_TENSOR, **kwargs):  # noqa: A002
        check_parameter_shape(shape, dtype)
        Variable.__init__(self, block, persistable=True, shape=shape, dtype=dtype, type=type, **kwargs)
        self.trainable = kwargs.get("trainable", True)
        self.optimize_attr = kwargs.get("optimize_attr", {"learning_rate": 1.0})
        self.regularizer = kwargs.get("regularizer")
        self.do_model_average = kwargs.get("do_model_average")
        self.need_clip = kwargs.get("need_clip", True)
        self.is_distributed = False

    def to_string(self, throw_on_error, with_details=False) -> str:
        """The parameter as protobuf text; with details also how it is trained."""
        text = Variable.to_string(self, throw_on_error, with_details)
        if with_details:
            for name in ("trainable", "optimize_attr", "regularizer", "do_model_average", "need_clip"):
                text += f"{name}: {getattr(self, name)}\n"
        return text


def isinstance_of(value: Any, cls: type) -> bool:
    """`isinstance` by the class itself, independent of the mode."""
    return issubclass(type(value), cls)
