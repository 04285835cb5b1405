"""Mode checks and file lookup for the data sets of paddle.text and paddle.vision."""

from __future__ import annotations

from .common import _check_exists_and_download

__all__: list[str] = []


def check_mode(mode: str, modes: tuple[str, ...]) -> str:
    """The mode in lower case; AssertionError unless it is in `modes`."""
    assert isinstance(mode, str) and mode.lower() in modes, (
        f"mode should be one of {', '.join(map(repr, modes))}, but got {mode!r:.200}"
    )
    return mode.lower()


def local_file(name: str, given: str | None, url: str, md5: str, folder: str, download: bool) -> str:
    """The path of a file: the given one, or one downloaded to `folder` of the data sets.

    Raises:
        AssertionError: if none is given and downloading is disabled.
        RuntimeError: if the download fails; the message gives the expected path.
    """
    if given is not None:
        return given
    assert download, f"{name} is not set and downloading automatically is disabled; the file is available at {url}"
    return _check_exists_and_download(None, url, md5, folder, download)
