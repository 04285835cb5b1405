"""try_import: imports optional packages."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["try_import"]

# Modules whose package has another name.
_PACKAGES = {"cv2": "opencv-python", "yaml": "PyYAML", "PIL": "Pillow", "sklearn": "scikit-learn"}


def try_import(module_name: str) -> ModuleType:
    """Imports a module; if it is missing, the ImportError says what to install.

    Examples:
        >>> import paddle
        >>> paddle.utils.try_import("json").dumps([1])
        '[1]'
    """
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        top = module_name.partition(".")[0]
        raise ImportError(
            f"this needs the module {module_name}, which could not be imported ({error}): "
            f"pip install {_PACKAGES.get(top, top)}",
            name=module_name,
        ) from error
