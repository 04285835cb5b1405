"""fluid.install_check: the older path of paddle.utils.run_check."""

from paddle.static.install_check import run_check

__all__ = ["run_check"]
