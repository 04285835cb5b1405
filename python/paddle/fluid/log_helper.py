"""fluid.log_helper: get_logger, a logger that does not change the configuration of the root logger."""

from __future__ import annotations

import logging

__all__ = ["get_logger"]


def get_logger(name: str, level: int | str, fmt: str | None = None) -> logging.Logger:
    """The logger `name` with its own level and handler; its messages do not reach the root logger.

    Args:
        name (str): its name; a second call returns the same logger, with the new level and format.
        level (int|str): the minimum level, such as ``logging.INFO``.
        fmt (str, optional): the format of a message; None: the bare message.

    Examples:
        >>> import logging
        >>> from paddle.fluid.log_helper import get_logger
        >>> get_logger("mine", logging.INFO, fmt="%(levelname)s: %(message)s").level == logging.INFO
        True
    """
    logger = logging.getLogger(name)
    logger.setLevel(level)
    # A second call must not add a second handler, which would print every message twice.
    ours = next((h for h in logger.handlers if getattr(h, "_of_log_helper", False)), None)
    if ours is None:
        ours = logging.StreamHandler()
        ours._of_log_helper = True  # type: ignore[attr-defined]
        logger.addHandler(ours)
    ours.setFormatter(logging.Formatter(fmt) if fmt else None)
    logger.propagate = False
    return logger
