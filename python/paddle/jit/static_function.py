"""StaticFunction: a function of dygraph mode that runs as a Program."""

from __future__ import annotations

import warnings
import weakref
from types import MethodType
from typing import Any

import paddle._core as _core
from paddle._basics import autocast, mode
from paddle._programs.program import Program
from paddle._programs.variable import Variable

from .concrete_program import ConcreteProgram
from .dy2static.cache import code_of
from .dy2static.errors import UnsupportedSyntaxError, translated, translated_at_run
from .function_spec import FunctionSpec
from .partial_program import PartialProgramLayer
from .program_cache import CacheKey, ProgramCache, training_flags
from .program_translator import ProgramTranslator, strict_mode
from .structure import leaves
from .wrapped import Wrapped

__all__: list[str] = []

#: the attribute of an object that holds its bound StaticFunctions
_BOUND = "_jit_bound_methods"
_WITHOUT_DICT: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_PLAIN = frozenset((int, float, bool, str, type(None)))
#: bound of the Programs that are found by their arguments' types
_QUICK = 512


class _BoundMethods(dict):
    """The bound StaticFunctions of an object by those of its class. A copy of the object begins without any."""

    def __deepcopy__(self, memo: dict) -> _BoundMethods:
        return _BoundMethods()

    def __reduce__(self) -> Any:
        return _BoundMethods, ()


class StaticFunction(Wrapped):
    """A function that runs as a Program; made by `paddle.jit.to_static`.

    Args:
        function (callable): a function or a bound method.
        input_spec (list|tuple, optional): InputSpecs of its first arguments.
    """

    def __init__(self, function: Any, input_spec: Any = None) -> None:
        if isinstance(function, MethodType):
            self._dygraph_function, self._class_instance = function.__func__, function.__self__
        else:
            self._dygraph_function, self._class_instance = function, None
        self._input_spec = input_spec
        self._function_spec = FunctionSpec(function, input_spec)
        self._program_cache = ProgramCache()
        self._program_trans = ProgramTranslator()
        self._warned: set[str] = set()
        #: whether a call has run in dygraph mode because of attributes that it sets
        self._retried = False
        self._quick: dict[tuple | None, PartialProgramLayer] = {}
        for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
            if hasattr(function, name):
                setattr(self, name, getattr(function, name))

    def __get__(self, instance: Any, owner: Any) -> StaticFunction:
        """The StaticFunction of a method bound to `instance`, one for each instance."""
        if instance is None:
            return self
        members = getattr(instance, "__dict__", None)
        if isinstance(members, dict):
            table = members.setdefault(_BOUND, _BoundMethods())
        else:  # a class, or an object with slots
            table = _WITHOUT_DICT.setdefault(instance, _BoundMethods())
        bound = table.get(self)
        if bound is None or bound._class_instance is not instance:
            bound = table[self] = self._bound_to(instance)
        return bound

    def _bound_to(self, instance: Any) -> StaticFunction:
        bound = type(self)(self._dygraph_function, self._input_spec)
        bound._class_instance = instance
        bound._function_spec = FunctionSpec(self._dygraph_function, self._input_spec, bound=True)
        return bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._program_trans.enable_to_static:
            warnings.warn(
                "to_static has no effect after ProgramTranslator.enable(False): the function runs in dygraph mode",
                stacklevel=2,
            )
            return self._call_dygraph_function(*args, **kwargs)
        if mode.in_static_mode():
            raise RuntimeError(
                f"to_static: {self._function_spec.name}() was called in static mode; call paddle.disable_static() first"
            )
        key = None if kwargs else self._quick_key(args)
        layer = self._quick.get(key)
        if layer is not None:
            return self._run(layer, args, kwargs)
        given, rest = self._function_spec.unified_args_and_kwargs(args, kwargs)
        try:
            concrete, layer = self.get_concrete_program(*given, **rest)
            if concrete.stateful is not None:
                if not self._retried and not strict_mode():  # an attribute that only the first call sets
                    self._retried = True
                    self._program_cache.drop(concrete)
                    return self._call_dygraph_function(*args, **kwargs)
                raise concrete.stateful
        except UnsupportedSyntaxError as error:
            if strict_mode():
                raise
            self._warn_once(error)
            return self._call_dygraph_function(*args, **kwargs)
        except Exception as error:
            raise translated(error) from None
        if key is not None:
            if len(self._quick) >= _QUICK:
                self._quick.clear()
            self._quick[key] = layer
        return self._run(layer, given, rest)

    @staticmethod
    def _run(layer: PartialProgramLayer, args: tuple, kwargs: dict) -> Any:
        try:
            return layer(args, kwargs)
        except Exception as error:
            raise translated_at_run(error) from None

    def _quick_key(self, args: tuple) -> tuple | None:
        """A key of Tensors and plain values, None for other arguments: found without the arguments' specs."""
        parts: list[Any] = [_core.is_grad_enabled(), autocast.current()]
        for arg in args:
            kind = type(arg)
            if kind is _core.Tensor:
                parts += (arg.dtype, tuple(arg.shape), arg.stop_gradient)
            elif kind in _PLAIN:
                parts += (kind, arg)
            else:
                return None
        if self._class_instance is not None:
            parts.append(training_flags(self._class_instance))
        return tuple(parts)

    def _warn_once(self, error: UnsupportedSyntaxError) -> None:
        if error.place not in self._warned:
            self._warned.add(error.place)
            warnings.warn(f"{error}. The function {self._function_spec.name}() runs in dygraph mode", stacklevel=3)

    def _call_dygraph_function(self, *args: Any, **kwargs: Any) -> Any:
        if self._class_instance is not None:
            return self._dygraph_function(self._class_instance, *args, **kwargs)
        return self._dygraph_function(*args, **kwargs)

    def get_concrete_program(self, *args: Any, **kwargs: Any) -> tuple[ConcreteProgram, PartialProgramLayer]:
        """The Program for these arguments (Tensors, arrays, InputSpecs, or Python values), built when it is new.

        Returns:
            tuple: the ConcreteProgram, and the PartialProgramLayer that runs it.
        """
        given, rest = self._function_spec.unified_args_and_kwargs(args, kwargs)
        specs, keywords = self._function_spec.args_to_input_spec(given, rest)
        return self._program_cache[CacheKey(self._function_spec, specs, keywords, self._class_instance)]

    def get_traced_count(self) -> int:
        """The number of Programs built so far."""
        return len(self._program_cache)

    @property
    def code(self) -> str:
        """The source text of the translated function."""
        return code_of(self._dygraph_function)

    @property
    def concrete_program(self) -> ConcreteProgram:
        """The latest ConcreteProgram; built from `input_spec` when there is none."""
        return self.concrete_program_specify_input_spec(None)

    def concrete_program_specify_input_spec(self, input_spec: Any = None) -> ConcreteProgram:
        """The latest ConcreteProgram; when there is none it is built from the decorator's `input_spec` or this one.

        Raises:
            ValueError: when neither is given, or they differ.
        """
        count = len(self._program_cache)
        if count == 0:
            own = self._function_spec.input_spec
            wanted = input_spec
            if own is not None:
                if input_spec is not None and not specs_compatible(leaves(list(input_spec)), leaves(own)):
                    raise ValueError(
                        f"to_static: input_spec {list(input_spec)} differs from the decorator's {list(own)}"
                    )
                wanted = own
            if wanted is None:
                raise ValueError(
                    f"to_static: no Program of {self._function_spec.name}() has been built: give input_spec, or call "
                    "the function first"
                )
            return self.get_concrete_program(*wanted)[0]
        if count > 1:
            warnings.warn(
                f"to_static: {self._function_spec.name}() has {count} Programs; the latest is returned", stacklevel=3
            )
        return self._program_cache.last()[1][0]

    def program_to_save(self, input_spec: Any = None) -> ConcreteProgram:
        """As `concrete_program_specify_input_spec`; after calls of several sizes a Program for all of them.

        An `if` on a size is in it with both branches. Where such a Program cannot be built, it is the latest. It is one
        with gradients, in which `no_grad` within the function is known, also after calls under no_grad.
        """
        former = _core.set_grad_enabled(True)
        try:
            found = self._recorded(self._to_save(input_spec))
            if found.stateful is not None:
                if strict_mode():
                    raise found.stateful
                warnings.warn(f"{found.stateful}. The saved Program has the value of now", stacklevel=3)
            return found
        finally:
            _core.set_grad_enabled(former)

    def _recorded(self, concrete: ConcreteProgram) -> ConcreteProgram:
        """The Program with gradients for the arguments of one that was built under no_grad."""
        if concrete.builder is None or concrete.builder.recording:
            return concrete
        made = next(key for key, (program, _) in self._program_cache.items() if program is concrete)
        args, kwargs = made.input_args_with_spec, made.input_kwargs_with_spec
        key = CacheKey(self._function_spec, args, kwargs, self._class_instance)
        return self._program_cache[key][0] if key.like(made) else concrete

    def _to_save(self, input_spec: Any) -> ConcreteProgram:
        if len(self._program_cache) > 1 and self._function_spec.input_spec is None:
            arguments = self._program_cache.open_arguments()
            if arguments is not None:
                try:
                    return self.get_concrete_program(*arguments[0], **arguments[1])[0]
                except Exception as error:
                    warnings.warn(
                        f"to_static: {self._function_spec.name}() was called with several sizes, but has no Program "
                        f"for all of them: {str(error).strip().splitlines()[-1]}",
                        stacklevel=3,
                    )
        return self.concrete_program_specify_input_spec(input_spec)

    @property
    def inputs(self) -> list[Variable]:
        """The input Variables of the latest Program."""
        return self.concrete_program.feeds()

    @property
    def outputs(self) -> list[Variable]:
        """The output Variables of the latest Program."""
        return self.concrete_program.variables()

    @property
    def main_program(self) -> Program:
        """The latest Program."""
        return self.concrete_program.main_program

    @property
    def program_cache(self) -> ProgramCache:
        return self._program_cache

    @property
    def function_spec(self) -> FunctionSpec:
        return self._function_spec

    @property
    def input_spec(self) -> tuple | None:
        """The InputSpecs that the decorator was given."""
        return self._function_spec.input_spec


def specs_compatible(given: list, own: list) -> bool:
    """Whether each spec describes sizes that the decorator's spec admits, in the same types."""
    if len(given) != len(own):
        return False
    for one, other in zip(given, own, strict=True):
        if one.dtype != other.dtype or len(one.shape) != len(other.shape):
            return False
        if any(a != b and -1 not in (a, b) for a, b in zip(one.shape, other.shape, strict=True)):
            return False
    return True
