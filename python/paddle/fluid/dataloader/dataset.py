"""The older import path of paddle.io's datasets."""

from paddle.io.dataset import *  # noqa: F403
from paddle.io.dataset import __all__, to_list
