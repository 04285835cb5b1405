"""yaml.load as before PyYAML 6: the loader may be left out."""

from __future__ import annotations

from typing import Any

import yaml

__all__: list[str] = []


def load(stream: Any, Loader: Any = None) -> Any:  # noqa: N803 (PyYAML's name)
    """The document of a stream; by FullLoader where none is given, as in PyYAML 5."""
    return yaml.load(stream, Loader or yaml.FullLoader)


def load_all(stream: Any, Loader: Any = None) -> Any:  # noqa: N803 (PyYAML's name)
    """The documents of a stream; by FullLoader where none is given, as in PyYAML 5."""
    return yaml.load_all(stream, Loader or yaml.FullLoader)
