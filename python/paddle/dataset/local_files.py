"""What the data sets of paddle.text and paddle.vision share: their modes and files."""

from __future__ import annotations

from .common import _check_exists_and_download

__all__: list[str] = []


def check_mode(mode: str, modes: tuple[str, ...]) -> str:
    """The mode in small letters; AssertionError for one that is not among `modes`."""
    assert isinstance(mode, str) and mode.lower() in modes, (
        f"mode should be one of {', '.join(map(repr, modes))}, but got {mode!r:.200}"
    )
    return mode.lower()


def local_file(name: str, given: str | None, url: str, md5: str, folder: str, download: bool) -> str:
    """The path of a file: the one that is given, or the one that is fetched to `folder` of the data sets.

    Raises:
        AssertionError: when none is given and nothing may be fetched.
        RuntimeError: when it could not be fetched; the text says where it belongs.
    """
    if given is not None:
        return given
    assert download, f"{name} is not set and downloading automatically is disabled; the file is to be had at {url}"
    return _check_exists_and_download(None, url, md5, folder, download)
