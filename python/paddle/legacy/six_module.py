"""What scripts use of the package six, where it is not installed: Python 3's side of it."""

from __future__ import annotations

import builtins
import functools
import importlib
import io
import itertools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

__all__: list[str] = []

PY2, PY3, PY34 = False, True, True
MAXSIZE = sys.maxsize
string_types, integer_types, class_types = (str,), (int,), (type,)
text_type, binary_type = str, bytes
StringIO, BytesIO = io.StringIO, io.BytesIO
unichr, int2byte, next, callable = chr, bytes, builtins.next, builtins.callable  # noqa: A001 (six's names)
advance_iterator = builtins.next
range, zip, map, filter, input = builtins.range, builtins.zip, builtins.map, builtins.filter, builtins.input  # noqa: A001
xrange, reduce, intern, getcwd = builtins.range, functools.reduce, sys.intern, __import__("os").getcwd
zip_longest, filterfalse = itertools.zip_longest, itertools.filterfalse
reload_module = importlib.reload
#: the names of modules that `six.moves` has
_MODULES = {
    "builtins": "builtins",
    "cPickle": "pickle",
    "configparser": "configparser",
    "copyreg": "copyreg",
    "html_parser": "html.parser",
    "http_client": "http.client",
    "http_cookiejar": "http.cookiejar",
    "queue": "queue",
    "socketserver": "socketserver",
    "urllib": "urllib",
    "urllib_parse": "urllib.parse",
    "urllib_request": "urllib.request",
    "urllib_error": "urllib.error",
    "cStringIO": "io",
    "BaseHTTPServer": "http.server",
    "SimpleHTTPServer": "http.server",
}


def __getattr__(name: str) -> Any:
    if name == "moves":
        return sys.modules[__name__]
    if name in _MODULES:
        if name == "urllib":
            importlib.import_module("urllib.request")
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module 'six' has no attribute {name!r}; the package six may have it (pip install six)")


def iteritems(d: Any, **kwargs: Any) -> Iterator[Any]:
    """The items of a dict."""
    return iter(d.items(**kwargs))


def iterkeys(d: Any, **kwargs: Any) -> Iterator[Any]:
    """The keys of a dict."""
    return iter(d.keys(**kwargs))


def itervalues(d: Any, **kwargs: Any) -> Iterator[Any]:
    """The values of a dict."""
    return iter(d.values(**kwargs))


def viewitems(d: Any) -> Any:
    """The items of a dict, as a view."""
    return d.items()


def b(s: str) -> bytes:
    """Bytes of a text of latin-1 characters."""
    return s.encode("latin-1")


def u(s: str) -> str:
    """The text."""
    return s


def ensure_str(s: Any, encoding: str = "utf-8", errors: str = "strict") -> str:
    """A text of a text or bytes."""
    return s.decode(encoding, errors) if isinstance(s, bytes) else s


ensure_text = ensure_str


def ensure_binary(s: Any, encoding: str = "utf-8", errors: str = "strict") -> bytes:
    """Bytes of a text or bytes."""
    return s.encode(encoding, errors) if isinstance(s, str) else s


def add_metaclass(metaclass: type) -> Callable[[type], type]:
    """A decorator: the class is made again, by `metaclass`."""

    def decorate(cls: type) -> type:
        space = {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__")}
        return metaclass(cls.__name__, cls.__bases__, space)

    return decorate


def with_metaclass(meta: type, *bases: type) -> type:
    """A base class whose subclasses are made by `meta`."""
    return types.new_class("temporary_class", bases, {"metaclass": meta})


def reraise(tp: Any, value: BaseException | None, tb: Any = None) -> None:
    """Raises an exception with a traceback."""
    raise (tp() if value is None else value).with_traceback(tb)


def raise_from(value: BaseException, from_value: Any) -> None:
    """Raises an exception from another."""
    raise value from from_value


def python_2_unicode_compatible(cls: type) -> type:
    """The class."""
    return cls


def wraps(wrapped: Any, *args: Any, **kwargs: Any) -> Any:
    """As functools.wraps."""
    return functools.wraps(wrapped, *args, **kwargs)


def print_(*args: Any, **kwargs: Any) -> None:
    """As print."""
    print(*args, **kwargs)


def get_function_code(func: Any) -> Any:
    """The code of a function."""
    return func.__code__
