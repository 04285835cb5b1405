"""check_import_scipy: verifies on Windows that scipy's libraries can be loaded, as 2.0.2 does at import."""

from __future__ import annotations

__all__ = ["check_import_scipy"]


def check_import_scipy(os_name: str) -> None:
    """Imports scipy on Windows, where a required library may be missing.

    Args:
        os_name (str): ``os.name``; only "nt" has an effect.

    Raises:
        ImportError: if a DLL cannot be loaded; the message says where to get it.

    Examples:
        >>> import os
        >>> from paddle.check_import_scipy import check_import_scipy
        >>> check_import_scipy(os.name)
    """
    if os_name != "nt":
        return
    try:
        import scipy.io  # noqa: F401
    except ImportError as error:
        if "DLL load failed" in str(error):
            raise ImportError(
                f"{error}: scipy needs the Visual C++ Redistributable, which Microsoft offers for download"
            ) from error
