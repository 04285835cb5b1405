"""Errors of the translation, and errors of translated code with the user's lines."""

from __future__ import annotations

import os
import re
import sys
import traceback
from typing import Any

from paddle._programs import building

#: The attribute of an exception that holds its ErrorData.
ERROR_DATA = "Error data about original source code information and traceback."
SIMPLIFY_ERROR_ENV_NAME = "TRANSLATOR_SIMPLIFY_NEW_ERROR"
DEFAULT_SIMPLIFY_NEW_ERROR = 1
DISABLE_ERROR_ENV_NAME = "TRANSLATOR_DISABLE_NEW_ERROR"
DEFAULT_DISABLE_NEW_ERROR = 0

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


class UnsupportedSyntaxError(NotImplementedError):
    """A construct that cannot become part of a Program. to_static runs the function in dygraph mode instead."""

    def __init__(self, text: str, construct: str = "", place: str = "") -> None:
        super().__init__(text)
        self.construct, self.place = construct, place


def unsupported(construct: str, filename: str, line: int, column: int = 0, instead: str = "") -> UnsupportedSyntaxError:
    """The error for a construct at a place; `instead` says how to write it."""
    place = f"{filename}:{line}:{column}"
    advice = f". {instead}" if instead else ""
    return UnsupportedSyntaxError(f"to_static: {place}: {construct} cannot be translated{advice}", construct, place)


def user_place() -> str:
    """File and line of the innermost frame outside of this package."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "?"


class ErrorData:
    """Type, message and frames of an error in translated code.

    Attributes:
        in_runtime (bool): whether the error came from a run of the Program; its message has the frames then.
    """

    def __init__(self, error: BaseException, in_runtime: bool = False) -> None:
        self.error_type = type(error)
        self.error_value = error
        self.in_runtime = in_runtime
        self.origin_traceback = traceback.extract_tb(error.__traceback__)

    def create_message(self) -> str:
        """ "In transformed code:", the user's frames with their source lines, the error."""
        lines = ["In transformed code:", ""]
        if self.in_runtime:
            return "\n".join([*lines, str(self.error_value)])
        lines += [f'    File "{file}", line {line}, in {name}\n\t{text}' for file, line, name, text in self._frames()]
        lines.append("    " + "".join(traceback.format_exception_only(self.error_type, self.error_value)).strip())
        return "\n".join(lines)

    def _frames(self) -> list[tuple]:
        """The user's frames; parts of a function that the translation made count as the function."""
        frames: list[tuple] = []
        for frame in self.origin_traceback:
            if frame.filename.startswith(_PACKAGE):
                continue
            name = frame.name
            if name.startswith(("_jst_", "<lambda>")) and frames and frames[-1][0] == frame.filename:
                name = frames.pop()[2]
            frames.append((frame.filename, frame.lineno, name, frame.line))
        return frames

    def create_exception(self) -> BaseException:
        """The error of the same type with the message of `create_message`; the original where the type takes none."""
        try:
            made = self.error_type(self.create_message())
        except Exception:
            return self.error_value
        made.__dict__.update(getattr(self.error_value, "__dict__", {}))
        setattr(made, ERROR_DATA, self)
        return made


def attach_error_data(error: BaseException, in_runtime: bool = False) -> BaseException:
    """Record the frames of an error in the error itself."""
    if not hasattr(error, ERROR_DATA):
        setattr(error, ERROR_DATA, ErrorData(error, in_runtime))
    return error


def translated(error: BaseException, builder: Any = None) -> BaseException:
    """The error to raise for one that the translated function raised while a Program was built."""
    if isinstance(error, UnsupportedSyntaxError) or hasattr(error, ERROR_DATA):
        return error
    if isinstance(error, NameError) and builder is not None:
        found = re.search(r"'(\w+)'", str(error))
        reason = builder.reasons.get(getattr(error, "name", None) or (found.group(1) if found else None))
        if reason is not None:
            kind, text = reason
            error = kind(text).with_traceback(error.__traceback__)
    attach_error_data(error)
    if int(os.environ.get(DISABLE_ERROR_ENV_NAME, DEFAULT_DISABLE_NEW_ERROR)):
        return error
    return getattr(error, ERROR_DATA).create_exception()


def translated_at_run(error: BaseException) -> BaseException:
    """The error to raise for one of a run of the Program, whose message names the user's line already."""
    if hasattr(error, ERROR_DATA):
        return error
    attach_error_data(error, in_runtime=True)
    if int(os.environ.get(DISABLE_ERROR_ENV_NAME, DEFAULT_DISABLE_NEW_ERROR)):
        return error
    return getattr(error, ERROR_DATA).create_exception()


def refuse_truth(what: str, advice: str) -> TypeError:
    """The error for a Variable whose value Python reads while a Program is built."""
    return TypeError(
        f"{what} at {user_place()}: the Tensor is a Variable of the Program that to_static builds, and has no value "
        f"yet. {advice}"
    )


def is_building() -> bool:
    """Whether a Program is being built from dygraph code."""
    return building.current is not None
