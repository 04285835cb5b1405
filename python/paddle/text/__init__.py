"""paddle.text: text data sets."""

from . import datasets
from .datasets import *  # noqa: F403

__all__ = datasets.__all__
