"""The log of the translation, and the printing of translated code."""

from __future__ import annotations

import ast
import logging
import os
import threading
from typing import Any

__all__ = ["TranslatorLogger", "set_verbosity", "set_code_level", "get_verbosity", "get_code_level"]

VERBOSITY_ENV_NAME = "TRANSLATOR_VERBOSITY"
CODE_LEVEL_ENV_NAME = "TRANSLATOR_CODE_LEVEL"
DEFAULT_VERBOSITY = -1
DEFAULT_CODE_LEVEL = -1
#: the level that prints the final code
LOG_AllTransformer = 100


def _level(value: Any) -> int | None:
    if value is not None and not isinstance(value, int):
        raise TypeError(f"the level must be an int or None, got {type(value).__name__}")
    return value


class TranslatorLogger:
    """The log of the translation; the class has one instance."""

    _instance: TranslatorLogger | None = None
    _lock = threading.Lock()
    _initialized = False

    def __new__(cls) -> TranslatorLogger:
        with cls._lock:
            if cls._instance is None:
                cls._instance = super().__new__(cls)
            return cls._instance

    def __init__(self) -> None:
        if self._initialized:
            return
        self._initialized = True
        self.logger_name = "Dynamic-to-Static"
        self._logger = logging.getLogger(self.logger_name)
        if not self._logger.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s: %(message)s"))
            self._logger.addHandler(handler)
            self._logger.setLevel(1)
            self._logger.propagate = False
        self._verbosity_level: int | None = None
        self._transformed_code_level: int | None = None
        self._need_to_echo_log_to_stdout: bool | None = None
        self._need_to_echo_code_to_stdout: bool | None = None

    @property
    def logger(self) -> logging.Logger:
        return self._logger

    @property
    def verbosity_level(self) -> int:
        """The level up to which messages are written; the environment's where none was set."""
        if self._verbosity_level is not None:
            return self._verbosity_level
        return int(os.getenv(VERBOSITY_ENV_NAME, DEFAULT_VERBOSITY))

    @verbosity_level.setter
    def verbosity_level(self, level: int | None) -> None:
        self._verbosity_level = _level(level)

    @property
    def transformed_code_level(self) -> int:
        """The level at which code is written; the environment's where none was set."""
        if self._transformed_code_level is not None:
            return self._transformed_code_level
        return int(os.getenv(CODE_LEVEL_ENV_NAME, DEFAULT_CODE_LEVEL))

    @transformed_code_level.setter
    def transformed_code_level(self, level: int | None) -> None:
        self._transformed_code_level = _level(level)

    @property
    def need_to_echo_log_to_stdout(self) -> bool:
        return bool(self._need_to_echo_log_to_stdout)

    @need_to_echo_log_to_stdout.setter
    def need_to_echo_log_to_stdout(self, value: bool | None) -> None:
        assert isinstance(value, (bool, type(None)))
        self._need_to_echo_log_to_stdout = value

    @property
    def need_to_echo_code_to_stdout(self) -> bool:
        return bool(self._need_to_echo_code_to_stdout)

    @need_to_echo_code_to_stdout.setter
    def need_to_echo_code_to_stdout(self, value: bool | None) -> None:
        assert isinstance(value, (bool, type(None)))
        self._need_to_echo_code_to_stdout = value

    def check_level(self, level: Any) -> int | None:
        """TypeError for a level that is neither int nor None."""
        return _level(level)

    def has_code_level(self, level: int) -> bool:
        """Whether code is written at this level."""
        return _level(level) == self.transformed_code_level

    def has_verbosity(self, level: int) -> bool:
        """Whether messages of this level are written."""
        return self.verbosity_level >= (_level(level) or 0)

    def error(self, msg: str, *args: Any, **kwargs: Any) -> None:
        self._write(self._logger.error, "ERROR: ", msg, args, kwargs)

    def warn(self, msg: str, *args: Any, **kwargs: Any) -> None:
        self._write(self._logger.warning, "WARNING: ", msg, args, kwargs)

    def log(self, level: int, msg: str, *args: Any, **kwargs: Any) -> None:
        """Write a message of a level."""
        if self.has_verbosity(level):
            self._write(self._logger.info, "INFO: ", f"(Level {level}) {msg}", args, kwargs)

    def _write(self, write: Any, kind: str, msg: str, args: tuple, kwargs: dict) -> None:
        write(msg, *args, **kwargs)
        if self.need_to_echo_log_to_stdout:
            self._output_to_stdout(kind + msg, *args)

    def log_transformed_code(self, level: int, code: Any, name: str, *args: Any, **kwargs: Any) -> None:
        """Write translated code."""
        if self.has_code_level(level):
            text = code if isinstance(code, str) else ast.unparse(code)
            self._logger.info("the code of %s after its translation:\n%s", name, text)
            if self.need_to_echo_code_to_stdout:
                print(f"{self.logger_name} INFO: the code of {name} after its translation:\n{text}")

    def _output_to_stdout(self, msg: str, *args: Any) -> None:
        print(f"{self.logger_name} {msg % args if args else msg}")


_TRANSLATOR_LOGGER = TranslatorLogger()


def set_verbosity(level: int = 0, also_to_stdout: bool = False) -> None:
    """Set the level up to which the translation logs; it overrides the environment variable TRANSLATOR_VERBOSITY.

    Args:
        level (int): 0 for nothing, more for more.
        also_to_stdout (bool): whether messages go to stdout, too.

    Raises:
        TypeError: when the level is no int.

    Examples:
        >>> import paddle
        >>> paddle.jit.set_verbosity(0)
    """
    _TRANSLATOR_LOGGER.verbosity_level = level
    _TRANSLATOR_LOGGER.need_to_echo_log_to_stdout = also_to_stdout


def get_verbosity() -> int:
    """The level that set_verbosity or the environment has set."""
    return _TRANSLATOR_LOGGER.verbosity_level


def set_code_level(level: int = LOG_AllTransformer, also_to_stdout: bool = False) -> None:
    """Write the code of functions when they are translated; it overrides TRANSLATOR_CODE_LEVEL.

    Args:
        level (int): 100 for the final code; the translation has no other levels.
        also_to_stdout (bool): whether the code goes to stdout, too.

    Raises:
        TypeError: when the level is no int.

    Examples:
        >>> import paddle
        >>> paddle.jit.set_code_level(100)
        >>> paddle.jit.set_code_level(-1)
    """
    _TRANSLATOR_LOGGER.transformed_code_level = level
    _TRANSLATOR_LOGGER.need_to_echo_code_to_stdout = also_to_stdout


def get_code_level() -> int:
    """The level that set_code_level or the environment has set."""
    return _TRANSLATOR_LOGGER.transformed_code_level


def error(msg: str, *args: Any, **kwargs: Any) -> None:
    _TRANSLATOR_LOGGER.error(msg, *args, **kwargs)


def warn(msg: str, *args: Any, **kwargs: Any) -> None:
    _TRANSLATOR_LOGGER.warn(msg, *args, **kwargs)


def log(level: int, msg: str, *args: Any, **kwargs: Any) -> None:
    _TRANSLATOR_LOGGER.log(level, msg, *args, **kwargs)


def log_transformed_code(level: int, code: Any, name: str, *args: Any, **kwargs: Any) -> None:
    """Write the code of a function."""
    _TRANSLATOR_LOGGER.log_transformed_code(level, code, name, *args, **kwargs)
