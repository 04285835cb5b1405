"""numpy's interface over launches of a call: launchers that are written with it have recipes."""

from .call import Lacking, through_launches
from .kernels import UNIT

__all__ = ["UNIT", "Lacking", "through_launches"]
