"""fluid.incubate: fleet of 1.x and checkpoints."""

from . import checkpoint as checkpoint

__all__: list[str] = []
