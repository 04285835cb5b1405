"""fluid.incubate.checkpoint: checkpoints by number, and epochs that go on from them."""

from . import auto_checkpoint as auto_checkpoint
from . import checkpoint_saver as checkpoint_saver

__all__: list[str] = []
