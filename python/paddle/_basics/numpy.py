"""numpy, imported when something of it is first asked for: without it `import paddle` takes half the time.

What comes with `import paddle` writes ``from paddle._basics import numpy as np``, and names nothing of it outside of
functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import *  # noqa: F403


def __getattr__(name: str) -> object:
    import numpy

    value = globals()[name] = getattr(numpy, name)
    return value
