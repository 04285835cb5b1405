"""paddle.text: text data sets."""

from paddle._basics.missing import getter as _getter

from . import datasets
from .datasets import *  # noqa: F403

__all__ = datasets.__all__

__getattr__ = _getter(__name__)
