"""The older import path of paddle.utils.unique_name: the very module, whose generator a switch replaces."""

import sys

from paddle._basics import unique_name

sys.modules[__name__] = unique_name
