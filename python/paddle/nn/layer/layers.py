"""Layer: the base class of networks; owns parameters, buffers and sublayers."""

from __future__ import annotations

import collections
import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import paddle._core as core
from paddle._basics import mode, unique_name
from paddle._basics import numpy as np
from paddle._basics.dtypes import VarType, convert_dtype, dtype_is_floating
from paddle._basics.missing import load
from paddle._basics.mode import in_static_mode
from paddle._dispatch.dygraph import no_grad_
from paddle._programs import building
from paddle._programs.scope import global_scope
from paddle._programs.variable import Parameter, Variable
from paddle.nn.layer.layer_support import (
    NOT_INITIALISED,
    HookRemoveHelper,
    _assign,
    _convert_camel_to_snake,
    _takes_stat_dict,
    check_name,
)
from paddle.nn.layer_object_helper import LayerObjectHelper

__all__ = ["Layer"]


#: the attribute of Layer.__init__ that `__call__` reads first
_MADE_BY_INIT = frozenset({"_forward_pre_hooks", "_forward_post_hooks", "_parameters", "_sub_layers", "_buffers"})


class Layer:
    """Base of all layers. A subclass creates parameters and sublayers in `__init__` by assigning them to attributes
    and computes in `forward`.

    Args:
        name_scope: prefix of the names of parameters: "my" gives "my_0.w_0" (default: the class name in snake case).
        dtype: default element type of parameters.

    Examples:
        >>> import paddle
        >>> class Halves(paddle.nn.Layer):
        ...     def __init__(self, size):
        ...         super().__init__()
        ...         self.narrow = paddle.nn.Linear(size, size // 2)
        ...     def forward(self, signal):
        ...         return paddle.tanh(self.narrow(signal))
        >>> halves = Halves(6)
        >>> halves(paddle.ones([4, 6])).shape
        [4, 3]
        >>> [name for name, _ in halves.named_parameters()]
        ['narrow.weight', 'narrow.bias']
    """

    def __init__(self, name_scope: str | None = None, dtype: Any = "float32") -> None:
        self.training = True
        if name_scope is None:
            name_scope = _convert_camel_to_snake(type(self).__name__)
        self._full_name = unique_name.generate(name_scope)
        self._helper = LayerObjectHelper(self._full_name)
        self._built = False
        self._dtype = dtype
        self._init_in_dynamic_mode = not in_static_mode()

        self._parameters: collections.OrderedDict[str, Any] = collections.OrderedDict()
        self._buffers: collections.OrderedDict[str, Any] = collections.OrderedDict()
        self._non_persistable_buffer_names_set: set[str] = set()
        self._sub_layers: collections.OrderedDict[str, Any] = collections.OrderedDict()
        # Loaded values of parameters that are created later.
        self._loaddict_holder: collections.OrderedDict[str, Any] = collections.OrderedDict()

        self._forward_pre_hooks: collections.OrderedDict[int, Any] = collections.OrderedDict()
        self._forward_post_hooks: collections.OrderedDict[int, Any] = collections.OrderedDict()

    # ------------------------------------------------------------------------------------------------ running

    def train(self) -> None:
        """Puts this layer and its sublayers into training mode, which affects Dropout, BatchNorm and so on."""
        self._switch("train", True)

    def eval(self) -> None:
        """Puts this layer and its sublayers into evaluation mode."""
        self._switch("eval", False)

    def _switch(self, method: str, training: bool) -> None:
        tracer = mode._dygraph_tracer()
        if tracer is not None:
            getattr(tracer, f"{method}_mode")()
        self.training = training
        plain = getattr(Layer, method)
        for _, layer in self.named_sublayers():
            # A subclass may override the method; the plain one would visit the sublayers twice.
            if getattr(type(layer), method) is plain:
                layer.training = training
            else:
                getattr(layer, method)()

    def apply(self, fn: Callable[[Layer], Any]) -> Layer:
        """Calls `fn` with each sublayer, inner ones first, and finally with this layer; returns this layer.

        Examples:
            >>> import paddle
            >>> net = paddle.nn.Sequential(paddle.nn.ReLU(), paddle.nn.Sigmoid())
            >>> _ = net.apply(lambda layer: print(type(layer).__name__))
            ReLU
            Sigmoid
            Sequential
        """
        for layer in self.children():
            layer.apply(fn)
        fn(self)
        return self

    def full_name(self) -> str:
        """The prefix of the names of this layer's parameters, such as "linear_0"."""
        return self._full_name

    def register_forward_post_hook(self, hook: Callable[..., Any]) -> HookRemoveHelper:
        """Calls `hook(layer, inputs, outputs)` after each forward; a result other than None replaces the outputs.

        Returns a helper whose `remove()` unregisters the hook.
        """
        helper = HookRemoveHelper(self._forward_post_hooks)
        self._forward_post_hooks[helper._hook_id] = hook
        return helper

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookRemoveHelper:
        """Calls `hook(layer, inputs)` before each forward; a result other than None replaces the inputs.

        Returns a helper whose `remove()` unregisters the hook.
        """
        helper = HookRemoveHelper(self._forward_pre_hooks)
        self._forward_pre_hooks[helper._hook_id] = hook
        return helper

    def _build_once(self, *args: Any, **kwargs: Any) -> None:
        """For subclasses that create their parameters on the first call."""
        return None

    def __call__(self, *inputs: Any, **kwargs: Any) -> core.Tensor:
        if self._forward_pre_hooks:
            for hook in list(self._forward_pre_hooks.values()):
                changed = building.converted(hook)(self, inputs)
                if changed is not None:
                    inputs = changed if isinstance(changed, tuple) else (changed,)
        if not self._built:
            self._build_once(*inputs, **kwargs)
            self._built = True
        if building.current is not None and in_static_mode():
            outputs = building.current.forward_of(self)(*inputs, **kwargs)
        else:
            outputs = self.forward(*inputs, **kwargs)
        if self._forward_post_hooks:
            for hook in list(self._forward_post_hooks.values()):
                changed = building.converted(hook)(self, inputs, outputs)
                if changed is not None:
                    outputs = changed
        return outputs

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The computation of the layer; implemented by subclasses."""
        raise NotImplementedError(f"'forward' not implement in class {type(self).__name__}")

    def backward(self, *inputs: Any) -> Any:
        """Always raises ValueError: gradients are computed by operators."""
        raise ValueError("Layer.backward cannot be called: define forward; gradients come from the operators")

    # ------------------------------------------------------------------------------------- parameters, buffers

    def create_parameter(
        self,
        shape: Any,
        attr: Any = None,
        dtype: Any = None,
        is_bias: bool = False,
        default_initializer: Any = None,
    ) -> Any:
        """A new parameter; assigning it to an attribute registers it with this layer.

        Args:
            shape: list of int.
            attr: a ParamAttr, a name, an initializer, ...; False for no parameter (None is returned).
            dtype: element type (default: float32).
            is_bias: selects the default initializer: zeros for a bias, Xavier for a weight.
            default_initializer: used if `attr` has no initializer.
        """
        attr = copy.deepcopy(attr)
        if isinstance(attr, str) and attr == "":
            attr = None
        return self._helper.create_parameter(attr, shape, dtype, is_bias, default_initializer)

    def create_variable(
        self,
        name: str | None = None,
        persistable: bool | None = None,
        dtype: Any = None,
        type: Any = VarType.LOD_TENSOR,  # noqa: A002 (Paddle's name)
    ) -> Any:
        """Deprecated since 2.0.0: the same as `create_tensor`; `type` is an argument of 1.8."""
        if type != VarType.LOD_TENSOR:
            raise ValueError(f"Layer.create_variable: type must be VarType.LOD_TENSOR, got {type}")
        warnings.warn(
            "paddle.nn.Layer.create_variable is deprecated since 2.0.0, and will be removed in future versions: use "
            "paddle.nn.Layer.create_tensor",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.create_tensor(name, persistable, dtype)

    def create_tensor(self, name: str | None = None, persistable: bool | None = None, dtype: Any = None) -> Any:
        """A new, empty Tensor named after this layer, for outputs of operators."""
        if name is not None:
            name = f"{self._full_name}.{name}"
        else:
            name = unique_name.generate(f"{self._full_name}._generated_var")
        block = self._helper.main_program.current_block()
        return block.create_var(name=name, persistable=persistable, dtype=dtype)

    def parameters(self, include_sublayers: bool = True) -> list[Any]:
        """All parameters of this layer and, by default, its sublayers, each once."""
        return [param for _, param in self.named_parameters(include_sublayers=include_sublayers)]

    def children(self) -> Iterator[Layer]:
        """Iterates over the direct sublayers, each once."""
        for _, layer in self.named_children():
            yield layer

    def named_children(self) -> Iterator[tuple[str, Layer]]:
        """Iterates over the direct sublayers, each once, with their names."""
        memo = set()
        for name, layer in self._sub_layers.items():
            if layer is not None and layer not in memo:
                memo.add(layer)
                yield name, layer

    def sublayers(self, include_sublayers: bool = True) -> list[Layer]:
        """All layers inside this one, at any depth; none with include_sublayers=False, as in 2.0.2."""
        return [layer for _, layer in self.named_sublayers(include_sublayers=include_sublayers)]

    def named_sublayers(
        self,
        prefix: str = "",
        include_sublayers: bool = True,
        include_self: bool = False,
        layers_set: set[Layer] | None = None,
    ) -> Iterator[tuple[str, Layer]]:
        """Iterates over the layers inside this one, each once, with names such as "block.fc".

        Args:
            prefix: prefix of all names.
            include_sublayers: False yields only this layer itself, if `include_self`.
            include_self: whether this layer comes first, named `prefix`.
            layers_set: layers to skip; those yielded are added.
        """
        if layers_set is None:
            layers_set = set()
        if include_self and self not in layers_set:
            layers_set.add(self)
            yield prefix, self
        if include_sublayers:
            for key, layer in list(self._sub_layers.items()):
                if layer is None:
                    continue
                yield from layer.named_sublayers(
                    prefix=f"{prefix}.{key}" if prefix else key,
                    include_sublayers=include_sublayers,
                    include_self=True,
                    layers_set=layers_set,
                )

    def named_parameters(self, prefix: str = "", include_sublayers: bool = True) -> Iterator[tuple[str, Any]]:
        """Iterates over all parameters, each once, with names such as "block.fc.weight"."""
        return self._named_members("_parameters", prefix, include_sublayers)

    def _named_members(self, store: str, prefix: str, include_sublayers: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for layer_prefix, layer in self.named_sublayers(prefix, include_sublayers, include_self=True):
            for key, value in getattr(layer, store).items():
                # By identity: `==` of Tensors compares elements.
                if value is None or id(value) in seen:
                    continue
                seen.add(id(value))
                yield f"{layer_prefix}.{key}" if layer_prefix else key, value

    def register_buffer(self, name: str, tensor: Any, persistable: bool = True) -> None:
        """Registers `tensor` (or None) as a buffer: a Tensor in the layer's state that is not a parameter.

        `persistable` selects whether `state_dict` includes it. ValueError before `__init__`; TypeError or KeyError for
        a name that is not a str, contains a dot, is empty or taken; TypeError for a value that is not a Tensor.
        """
        check_name(self, "buffer", name, "_buffers", ValueError)
        if hasattr(self, name) and name not in self._buffers:
            raise KeyError(f"attribute '{name}' already exists.")
        if tensor is not None and type(tensor) is not core.Tensor:
            raise TypeError(f"register_buffer: buffer should be a core.VarBase, got {type(tensor).__name__}")
        self._buffers[name] = tensor
        if persistable:
            self._non_persistable_buffer_names_set.discard(name)
        else:
            self._non_persistable_buffer_names_set.add(name)

    def buffers(self, include_sublayers: bool = True) -> list[Any]:
        """All buffers of this layer and, by default, its sublayers, each once."""
        return [buffer for _, buffer in self.named_buffers(include_sublayers=include_sublayers)]

    def named_buffers(self, prefix: str = "", include_sublayers: bool = True) -> Iterator[tuple[str, Any]]:
        """Iterates over all buffers, each once, with names such as "block.norm._mean"."""
        return self._named_members("_buffers", prefix, include_sublayers)

    def to(self, device: Any = None, dtype: Any = None, blocking: bool | None = None) -> Layer:
        """Moves all parameters and buffers to a device, and converts those of floating-point types, in place.

        Args:
            device (Place|str, optional): by default each stays where it is.
            dtype (str|numpy dtype, optional): the new floating-point type.
            blocking (bool, optional): ignored: copies are complete when this returns.

        Returns:
            Layer: this Layer.

        Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.6/api/paddle/nn/Layer_en.html#to

        Examples:
            >>> import paddle
            >>> str(paddle.nn.Linear(2, 3).to(dtype="float64").weight.dtype)
            'VarType.FP64'
        """
        members = [*self.parameters(), *self.buffers()]
        with no_grad_():
            for member in members:
                value = member.to(dtype) if dtype is not None and dtype_is_floating(member.dtype) else member
                value = value if device is None else value.to(device=device)
                if value is not member:
                    member._share_value(value)
        if dtype is not None:
            for layer in [self, *self.sublayers()]:
                layer._dtype = convert_dtype(dtype)
        return self

    def clear_gradients(self) -> None:
        """Clears the gradients of all trainable parameters."""
        for param in self.parameters():
            if param.trainable:
                param.clear_gradient()

    def add_sublayer(self, name: str, sublayer: Layer) -> Layer:
        """Registers `sublayer` under this name, and returns it."""
        assert isinstance(sublayer, Layer), f"sublayer should be a Layer, but received {type(sublayer).__name__}"
        self._sub_layers[name] = sublayer
        return sublayer

    def add_parameter(self, name: str, parameter: Any) -> Any:
        """Registers `parameter` (or None) under this name, and returns it.

        RuntimeError before `__init__`; TypeError or KeyError for a name that is not a str, contains a dot, is empty or
        taken; TypeError for a value that is not a Parameter.
        """
        check_name(self, "parameter", name, "_parameters", RuntimeError)
        if hasattr(self, name) and name not in self._parameters:
            raise KeyError(f"add_parameter: attribute '{name}' exists already")
        if parameter is not None and not isinstance(parameter, Parameter):
            raise TypeError(f"add_parameter: the value should be a Parameter, got {type(parameter).__name__}")
        if parameter is not None:
            self._load_late(parameter)
        self._parameters[name] = parameter
        return parameter

    def _load_late(self, parameter: Any) -> None:
        if self._loaddict_holder:
            assert parameter.name in self._loaddict_holder, f"set_state_dict: the state_dict has no '{parameter.name}'"
            parameter.set_value(self._loaddict_holder[parameter.name])

    # --------------------------------------------------------------------------------------------- attributes

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for store in ("_parameters", "_sub_layers", "_buffers"):
            members = own.get(store)
            if members is not None and name in members:
                if building.current is not None and in_static_mode():
                    return building.current.member(self, members, name)
                return members[name]
        if building.current is not None and (id(self), name) in building.current.hidden:
            return building.current.hidden_value(self, name)
        if name in _MADE_BY_INIT and name not in own:
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute '{name}': its __init__ has not called "
                "super().__init__()"
            )
        # The ordinary lookup raises the ordinary error, or that of a property which raised AttributeError.
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
            # As in 2.0.2 a member is also stored in the tables, so that the names in saved files stay the same.
            if not isinstance(value, (Layer, Parameter, core.Tensor)):
                return
        own = self.__dict__
        params, layers, buffers = own.get("_parameters"), own.get("_sub_layers"), own.get("_buffers")
        if isinstance(value, Parameter):
            self._keep("_parameters", name, value)
        elif params is not None and name in params:
            self._only_none(name, value, "parameter", "Parameter")
            params[name] = None
        elif isinstance(value, Layer):
            self._keep("_sub_layers", name, value)
        elif layers is not None and name in layers:
            self._only_none(name, value, "sublayer", "Layer")
            layers[name] = None
        elif type(value) is core.Tensor:
            if buffers is not None and name not in buffers:
                self._non_persistable_buffer_names_set.add(name)
            self._keep("_buffers", name, value)
        elif buffers is not None and name in buffers:
            if type(value) is Variable:  # while a Program is built from the layer
                if building.current is not None and in_static_mode():
                    building.current.assign_member(self, name, value)
                else:
                    buffers[name] = _assign(value, buffers[name])
            else:
                self._only_none(name, value, "buffers", "core.VarBase")
                buffers[name] = None
        else:
            if building.current is not None and in_static_mode():
                building.current.will_change(self, name)
            object.__setattr__(self, name, value)

    def _keep(self, store: str, name: str, value: Any) -> None:
        """Stores a member in its table, and removes a former member of that name from the other tables."""
        own = self.__dict__
        if store not in own:
            raise ValueError(NOT_INITIALISED)
        if store == "_parameters":
            self._load_late(value)
        for other in (own, own["_parameters"], own["_buffers"], own["_sub_layers"]):
            if other is not own[store]:
                other.pop(name, None)
        own[store][name] = value

    @staticmethod
    def _only_none(name: str, value: Any, what: str, wanted: str) -> None:
        if value is not None:
            raise TypeError(
                f"assignment to {what} '{name}' should be of type {wanted} or None, but got '{type(value).__name__}'"
            )

    def __delattr__(self, name: str) -> None:
        for store in (self._parameters, self._sub_layers, self._buffers):
            if name in store:
                del store[name]
                self._non_persistable_buffer_names_set.discard(name)
                return
        if building.current is not None and in_static_mode():
            building.current.will_change(self, name)
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        own = [name for store in (self._parameters, self._sub_layers, self._buffers) for name in store]
        return dir(type(self)) + list(self.__dict__) + own

    def extra_repr(self) -> str:
        """The text that `repr` shows in parentheses; overridden by subclasses."""
        return ""

    def _repr_html_(self) -> str:
        """The tree of sublayers with numbers of parameters, for notebooks."""
        return load("paddle.utils.drawing:layer_html")(self)

    def __repr__(self) -> str:
        extra = self.extra_repr().split("\n")
        text = extra[0] if len(extra) == 1 else "\n  " + "\n  ".join(extra) + "\n"
        inner = ["(" + name + "): " + repr(layer).replace("\n", "\n  ") for name, layer in self._sub_layers.items()]
        if inner:
            text += "\n  " + "\n  ".join(inner) + "\n"
        return f"{type(self).__name__}({text})"

    # -------------------------------------------------------------------------------------------------- state

    def state_dict(
        self,
        destination: dict[str, Any] | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
    ) -> dict[str, Any]:
        """All parameters and persistable buffers, by names such as "block.fc.weight" (the Tensors, not copies).

        Args:
            destination: a dict that they are added to.
            include_sublayers: whether to include those of sublayers.
            structured_name_prefix: prefix of all names.
        """
        if destination is None:
            destination = collections.OrderedDict()
        for name, param in self._parameters.items():
            if param is not None:
                destination[structured_name_prefix + name] = param
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistable_buffer_names_set:
                destination[structured_name_prefix + name] = buffer
        if include_sublayers:
            for name, layer in self._sub_layers.items():
                if layer is not None:
                    layer.state_dict(destination, include_sublayers, f"{structured_name_prefix}{name}.")
        return destination

    @_takes_stat_dict
    def set_state_dict(
        self, state_dict: dict[str, Any], include_sublayers: bool = True, use_structured_name: bool = True
    ) -> None:
        """Sets parameters and buffers to values returned by `state_dict()` or loaded from a file.

        Args:
            state_dict: name to Tensor or ndarray.
            include_sublayers: ignored, as in 2.0.2.
            use_structured_name: whether names are such as "fc.weight", or those of the parameters, "linear_0.w_0".

        A value that is missing or has another shape is skipped with a warning.
        """
        matched = []
        for key, param in self.state_dict().items():
            name = key if use_structured_name else param.name
            state = state_dict.get(name)
            if state is None:
                problem = f"'{name}' is not in the state dict"
            elif list(state.shape) != list(param.shape):
                problem = f"{name} receives a shape {list(state.shape)}, but the expected shape is {list(param.shape)}."
            else:
                matched.append((param, state))
                continue
            warnings.warn(f"Skip loading for {key}. {problem}", stacklevel=3)
        if not in_static_mode():
            for param, state in matched:
                param.set_value(state)
            return
        for param, state in matched:
            value = state.numpy() if isinstance(state, core.Tensor) else np.asarray(state)
            global_scope().var(param.name).get_tensor().set(value, mode._current_expected_place())

    set_dict = set_state_dict
    load_dict = set_state_dict
