"""The older import path of the initializers, with their older names and arguments."""

import sys

from paddle.nn.initializer import base as initializer

# The very module: it holds the global initializers, which callers read through either path.
sys.modules[__name__] = initializer
