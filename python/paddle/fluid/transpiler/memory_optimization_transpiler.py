"""memory_optimize and release_memory: deprecated, without effect."""

import warnings

__all__ = ["memory_optimize", "release_memory"]


def memory_optimize(input_program, skip_opt_set=None, print_log=False, level=0, skip_grads=True):
    """Does nothing: memory is released, and operators work in place, by default.

    Args:
        input_program (Program): not changed.
        skip_opt_set, print_log, level, skip_grads: not read.

    Examples:
        >>> import paddle.fluid as fluid
        >>> fluid.memory_optimize(fluid.Program())
    """
    warnings.warn(
        "memory_optimize is deprecated and does nothing: memory is given back, and operators work in place, by default",
        DeprecationWarning,
        stacklevel=2,
    )


def release_memory(input_program, skip_opt_set=None):
    """Does nothing: memory is released by default.

    Args:
        input_program (Program): not changed.
        skip_opt_set: not read.

    Examples:
        >>> import paddle.fluid as fluid
        >>> fluid.release_memory(fluid.Program())
    """
    warnings.warn("release_memory is deprecated and does nothing", DeprecationWarning, stacklevel=2)
