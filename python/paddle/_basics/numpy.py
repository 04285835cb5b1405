"""A lazy stand-in for numpy, imported at the first use of an attribute: this halves the time of `import paddle`.

Modules that `import paddle` loads write ``from paddle._basics import numpy as np`` and use it only inside functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import *  # noqa: F403


def __getattr__(name: str) -> object:
    import numpy

    value = globals()[name] = getattr(numpy, name)
    return value
