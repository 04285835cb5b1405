"""fluid.log_helper: loggers that do not touch the configuration of logging as a whole."""

from __future__ import annotations

import logging

__all__ = ["get_logger"]


def get_logger(name: str, level: int | str, fmt: str | None = None) -> logging.Logger:
    """The logger `name` with a level and a handler of its own; what it writes does not reach the root logger.

    Args:
        name (str): which logger; asked for again it is the same one, with the new level and format.
        level (int|str): the least level that is written, such as ``logging.INFO``.
        fmt (str, optional): the format of a line; the bare message when None.

    Examples:
        >>> import logging
        >>> from paddle.fluid.log_helper import get_logger
        >>> get_logger("mine", logging.INFO, fmt="%(levelname)s: %(message)s").level == logging.INFO
        True
    """
    logger = logging.getLogger(name)
    logger.setLevel(level)
    # Asked for a second time, one line is still written once.
    ours = next((h for h in logger.handlers if getattr(h, "_of_log_helper", False)), None)
    if ours is None:
        ours = logging.StreamHandler()
        ours._of_log_helper = True  # type: ignore[attr-defined]
        logger.addHandler(ours)
    ours.setFormatter(logging.Formatter(fmt) if fmt else None)
    logger.propagate = False
    return logger
