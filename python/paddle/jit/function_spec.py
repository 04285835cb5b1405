"""FunctionSpec: the signature of a function and the InputSpecs of its arguments."""

from __future__ import annotations

import copy
import inspect
import textwrap
from typing import Any

import paddle._core as _core
from paddle._basics import numpy as np
from paddle._basics.dtypes import convert_dtype
from paddle._programs.variable import Variable, isinstance_of
from paddle.static.creation import InputSpec

from .structure import leaves, rebuild

__all__: list[str] = []


def _kind(value: Any) -> str:
    return type(value).__name__


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (_core.Tensor, np.ndarray))


class FunctionSpec:
    """Binds the arguments of a call to the parameters of `function`, and replaces Tensors by InputSpecs.

    Args:
        function (callable): a function or a bound method.
        input_spec (list|tuple, optional): InputSpecs (or nests of these) of the first arguments.
        bound (bool): whether the first parameter is the instance of a method that is given as a plain function.

    Raises:
        TypeError: when `input_spec` is no list or tuple. ValueError: when a leaf of it is no InputSpec.
    """

    def __init__(self, function: Any, input_spec: Any = None, bound: bool = False) -> None:
        self._dygraph_function = function
        self._input_spec = None if input_spec is None else self._verified(input_spec)
        self._flat_input_spec = None if input_spec is None else leaves(self._input_spec)
        signature = inspect.signature(function)
        self._arg_names: list[str] = []
        self._default_kwargs: dict[str, Any] = {}
        self.keyword_only: list[str] = []
        self.varargs_name: str | None = None
        self.varkw_name: str | None = None
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.varargs_name = name
                continue
            if parameter.kind is parameter.VAR_KEYWORD:
                self.varkw_name = name
                continue
            if parameter.kind is parameter.KEYWORD_ONLY:
                self.keyword_only.append(name)
            else:
                self._arg_names.append(name)
            if parameter.default is not parameter.empty:
                self._default_kwargs[name] = parameter.default
        # a function in a class body is not bound yet when it is decorated: its parameter is known by its name only
        unbound = not inspect.ismethod(function) and self._arg_names[:1] == ["self"]
        if self._arg_names and (bound or unbound):
            self._default_kwargs.pop(self._arg_names.pop(0), None)

    @staticmethod
    def _verified(input_spec: Any) -> tuple:
        if not isinstance(input_spec, (tuple, list)):
            raise TypeError(f"to_static: input_spec must be a list or tuple, got {_kind(input_spec)}")
        for spec in leaves(tuple(input_spec)):
            if not isinstance(spec, InputSpec):
                raise ValueError(f"to_static: the elements of input_spec must be InputSpec, got {_kind(spec)}")
        return tuple(copy.deepcopy(list(input_spec)))

    @property
    def name(self) -> str:
        """The function's name, for messages."""
        return getattr(self._dygraph_function, "__name__", _kind(self._dygraph_function))

    def unified_args_and_kwargs(self, args: Any, kwargs: dict) -> tuple[tuple, dict]:
        """The arguments by position, with defaults filled in, and the rest of the keywords.

        Raises:
            ValueError: for too many arguments, or one that is missing. TypeError: for an unknown keyword (with
                input_spec a ValueError).
                NotImplementedError: when the function is a
                class under two decorators.
        """
        if len(args) > len(self._arg_names) and self.varargs_name is None:
            text = (
                f"{self.name}() takes {len(self._arg_names)} arguments ({', '.join(self._arg_names)}), "
                f"but received {len(args)}"
            )
            if args and isinstance(args[0], type):
                raise NotImplementedError(f"{text}: a function with several decorators is not supported here")
            raise ValueError(text)
        given, rest = list(args), dict(kwargs)
        for name in self._arg_names[len(given) :]:
            if name in rest:
                given.append(rest.pop(name))
            elif name in self._default_kwargs:
                given.append(self._default_kwargs[name])
            else:
                raise ValueError(f"{self.name}() requires the argument '{name}', which was not given")
        for name in self.keyword_only:
            if name not in rest:
                if name not in self._default_kwargs:
                    raise ValueError(f"{self.name}() requires the keyword argument '{name}', which was not given")
                rest[name] = self._default_kwargs[name]
        if self.varkw_name is None:
            unknown = [name for name in rest if name not in self.keyword_only]
            if unknown:
                kind = TypeError if self._input_spec is None else ValueError
                raise kind(f"{self.name}() got an unexpected keyword argument '{unknown[0]}'")
        return tuple(given), rest

    def args_to_input_spec(self, args: tuple, kwargs: dict) -> tuple[list, dict]:
        """The arguments with an InputSpec for each Tensor or array, named after the parameters.

        Raises:
            ValueError: when a call does not fit `input_spec`. TypeError: when it has another structure.
        """
        if self._input_spec is None:
            specs, keywords = rebuild(list(args), _as_spec), rebuild(kwargs, _as_spec)
        else:
            if any(_is_tensor(leaf) for leaf in leaves(kwargs)) or any(name in self._arg_names for name in kwargs):
                raise ValueError(f"{self.name}(): the keyword arguments {list(kwargs)} cannot fit input_spec")
            if len(args) < len(self._input_spec):
                raise ValueError(
                    f"{self.name}() received {len(args)} arguments, but input_spec has {len(self._input_spec)}"
                )
            specs = [
                self._fitted(args[i], spec, self._arg_name(i)) for i, spec in enumerate(copy.deepcopy(self._input_spec))
            ]
            specs += [rebuild(arg, _as_spec) for arg in args[len(specs) :]]
            keywords = rebuild(kwargs, _as_spec)
        return [_named(self._arg_name(i), spec) for i, spec in enumerate(specs)], keywords

    def _arg_name(self, i: int) -> str:
        return self._arg_names[i] if i < len(self._arg_names) else f"{self.varargs_name}_{i - len(self._arg_names)}"

    def _fitted(self, value: Any, spec: Any, where: str) -> Any:
        """`spec` with the structure of `value` checked against it."""
        if isinstance(spec, InputSpec):
            self._check(value, spec, where)
            return _of(spec, value)
        if isinstance(spec, dict):
            if not isinstance(value, dict):
                raise TypeError(f"{self.name}(): argument '{where}' must be a dict by input_spec, got {_kind(value)}")
            for key in spec:
                if key not in value:
                    raise ValueError(f"{self.name}(): argument '{where}' has no key '{key}', which input_spec names")
            return {
                key: self._fitted(item, spec[key], f"{where}['{key}']") if key in spec else rebuild(item, _as_spec)
                for key, item in value.items()
            }
        if type(value) is not type(spec):
            raise TypeError(
                f"{self.name}(): argument '{where}' must be a {_kind(spec)} by input_spec, got {_kind(value)}"
            )
        if len(value) < len(spec):
            raise ValueError(f"{self.name}(): argument '{where}' has {len(value)} items, but input_spec {len(spec)}")
        items = [self._fitted(value[i], part, f"{where}[{i}]") for i, part in enumerate(spec)]
        return items + [rebuild(item, _as_spec) for item in value[len(spec) :]]

    def _check(self, value: Any, spec: InputSpec, where: str) -> None:
        if not _is_tensor(value):
            return
        shape = list(value.shape)
        fits = len(shape) == len(spec.shape) and all(
            want < 0 or want == got for want, got in zip(spec.shape, shape, strict=True)
        )
        if not fits:
            raise ValueError(
                f"{self.name}(): argument '{where}' must have the shape {list(spec.shape)} of its InputSpec, "
                f"got {shape}"
            )
        got, want = convert_dtype(value.dtype), convert_dtype(spec.dtype)
        if got != want:
            raise ValueError(
                f"{self.name}(): argument '{where}' must have the data type {want} of its InputSpec, got {got}"
            )

    @property
    def dygraph_function(self) -> Any:
        return self._dygraph_function

    @property
    def args_name(self) -> list[str]:
        return self._arg_names

    @property
    def input_spec(self) -> tuple | None:
        return self._input_spec

    @property
    def flat_input_spec(self) -> list | None:
        return self._flat_input_spec

    @property
    def code(self) -> str:
        """The function's source text."""
        return textwrap.dedent(inspect.getsource(self._dygraph_function))

    def __repr__(self) -> str:
        return f"function: {self.name}({','.join(self._arg_names)}), input_spec: {self._input_spec}"


def _as_spec(value: Any) -> Any:
    if isinstance_of(value, Variable) or isinstance(value, _core.Tensor):
        return _of(InputSpec(value.shape or [1], value.dtype, value.name), value)
    if isinstance(value, np.ndarray):
        return InputSpec.from_numpy(value if value.ndim else value.reshape(1))
    return value


def _of(spec: Any, value: Any) -> Any:
    """The spec of a value, with its stop_gradient; specs without a value count as those of inputs without gradients."""
    spec.stop_gradient = getattr(value, "stop_gradient", True)
    return spec


def _named(name: str, spec: Any) -> Any:
    """InputSpecs without a name get one: of the parameter, with the position or key in a nest."""
    if isinstance(spec, InputSpec):
        if spec.name is None:
            spec.name = name
        return spec
    if isinstance(spec, (list, tuple)):
        named = [_named(f"{name}_{i}", item) for i, item in enumerate(spec)]
        return type(spec)(*named) if hasattr(spec, "_fields") else type(spec)(named)
    if isinstance(spec, dict):
        return {key: _named(str(key), item) for key, item in spec.items()}
    return spec
