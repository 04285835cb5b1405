"""The older import path of the initializers, with their older names and arguments."""

import sys

from paddle.framework import initializer

# The very module: it holds the global initializers, which callers read through either path.
sys.modules[__name__] = initializer
