"""ProgramTranslator: the switch of to_static, and single steps of the translation."""

from __future__ import annotations

import os
import threading
import warnings
from typing import Any

from paddle._basics.checks import check_type
from paddle._basics.old_arguments import takes_old_name
from paddle._programs.program import Program
from paddle._programs.variable import Variable, isinstance_of
from paddle.nn.layer.layers import Layer

from .dy2static.cache import code_of, convert_to_static
from .dy2static.errors import translated, translated_at_run
from .function_spec import FunctionSpec
from .program_cache import CacheKey, ProgramCache
from .structure import leaves
from .wrapped import Wrapped, unwrap_decorators

__all__ = ["ProgramTranslator"]


class ProgramTranslator:
    """Translates functions of dygraph mode into Programs. The class has one instance.

    Examples:
        >>> import paddle
        >>> paddle.jit.ProgramTranslator() is paddle.jit.ProgramTranslator.get_instance()
        True
    """

    _singleton_lock = threading.RLock()
    _instance: ProgramTranslator | None = None
    _initialized = False

    def __new__(cls) -> ProgramTranslator:
        with cls._singleton_lock:
            if cls._instance is None:
                cls._instance = super().__new__(cls)
            return cls._instance

    def __init__(self) -> None:
        if not self._initialized:
            self._initialized = True
            self._program_cache = ProgramCache()
            self.enable_to_static = True

    @classmethod
    def get_instance(cls) -> ProgramTranslator:
        """The instance."""
        return cls()

    @classmethod
    def reset(cls) -> None:
        """Enable the translation, and drop the Programs of `get_output` and `get_program`."""
        if cls._instance is not None:
            cls._instance._initialized = False
            cls._instance.__init__()  # type: ignore[misc]

    @takes_old_name("enable_to_static", "enable_declarative")
    def enable(self, enable_to_static: bool) -> None:
        """Turn to_static on or off: functions run in dygraph mode while it is off. 1.8's name of the argument is
        `enable_declarative`.

        Raises:
            TypeError: when the argument is no bool.
        """
        if not isinstance(enable_to_static, bool):
            check_type(enable_to_static, "enable_to_static", bool, "ProgramTranslator.enable")
            raise TypeError(
                "The type of 'enable_to_static' in ProgramTranslator.enable must be bool, but received "
                f"{type(enable_to_static).__name__}."
            )
        self.enable_to_static = enable_to_static

    def _refused(self, method: str) -> bool:
        if not self.enable_to_static:
            warnings.warn(
                f"ProgramTranslator.{method} has no effect after enable(False): the function runs in dygraph mode",
                stacklevel=3,
            )
        return not self.enable_to_static

    def _entry(self, dygraph_func: Any, args: tuple, kwargs: dict) -> tuple:
        spec = FunctionSpec(dygraph_func)
        owner = getattr(dygraph_func, "__self__", None)
        if owner is None and args and isinstance(args[0], Layer):
            owner = args[0]
        return self._program_cache[CacheKey.from_func_and_args(spec, args, kwargs, owner)]

    def get_output(self, dygraph_func: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function as a Program.

        Args:
            dygraph_func (callable): the function.
            args, kwargs: its arguments.

        Returns:
            its result.

        Examples:
            >>> import paddle
            >>> def double(x):
            ...     return x * 2
            >>> paddle.jit.ProgramTranslator().get_output(double, paddle.ones([2])).numpy().tolist()
            [2.0, 2.0]
        """
        _check_callable(dygraph_func, "get_output")
        if self._refused("get_output"):
            return dygraph_func(*args, **kwargs)
        _refuse_wrapper(dygraph_func)
        try:
            _, layer = self._entry(dygraph_func, args, kwargs)
        except Exception as error:
            raise translated(error) from None
        spec = FunctionSpec(dygraph_func)
        if args and isinstance(args[0], Layer):
            args = args[1:]
        given, rest = spec.unified_args_and_kwargs(args, kwargs)
        try:
            return layer(given, rest)
        except Exception as error:
            raise translated_at_run(error) from None

    def get_func(self, dygraph_func: Any) -> Any:
        """The translated function, which appends operators when it is called on Variables in static mode.

        Args:
            dygraph_func (callable): the function.
        """
        _check_callable(dygraph_func, "get_func")
        if self._refused("get_func"):
            return dygraph_func
        return convert_to_static(unwrap_decorators(dygraph_func)[1])

    def get_program(self, dygraph_func: Any, *args: Any, **kwargs: Any) -> Any:
        """Build the Program of a call.

        Returns:
            tuple: main Program, startup Program, list of input Variables, list of output Variables.

        Examples:
            >>> import paddle
            >>> def double(x):
            ...     return x * 2
            >>> main, startup, ins, outs = paddle.jit.ProgramTranslator().get_program(double, paddle.ones([2]))
            >>> [op.type for op in main.global_block().ops]
            ['scale']
        """
        _check_callable(dygraph_func, "get_program")
        if self._refused("get_program"):
            return dygraph_func(*args, **kwargs)
        concrete, _ = self._entry(dygraph_func, args, kwargs)
        found: tuple[Program, Program | None] = (concrete.main_program, concrete.startup_program)
        outputs = [leaf for leaf in leaves(concrete.outputs) if isinstance_of(leaf, Variable)]
        return *found, concrete.feeds(), outputs

    def get_code(self, dygraph_func: Any) -> str:
        """The source text of the translated function."""
        _check_callable(dygraph_func, "get_code")
        return code_of(unwrap_decorators(dygraph_func)[1])

    def get_program_cache(self) -> ProgramCache:
        """The Programs that `get_output` and `get_program` have built."""
        return self._program_cache


def strict_mode() -> bool:
    """Whether a function that cannot be translated raises: the environment variable OAR_JIT_STRICT is 1."""
    return os.environ.get("OAR_JIT_STRICT", "0") not in ("", "0")


def _refuse_wrapper(function: Any) -> None:
    if isinstance(function, Wrapped) and isinstance(function.dygraph_function, type):
        raise NotImplementedError(
            f"to_static: {function.dygraph_function.__name__} is a class, not a function: to_static must be the only "
            "decorator, or the outermost one"
        )


def _check_callable(function: Any, method: str) -> None:
    assert callable(function), f"ProgramTranslator.{method}: dygraph_func must be callable, got {function!r:.200}"
