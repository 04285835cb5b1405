"""fluid.incubate.checkpoint: numbered checkpoints, and training ranges that resume from them."""

from . import auto_checkpoint as auto_checkpoint
from . import checkpoint_saver as checkpoint_saver

__all__: list[str] = []
