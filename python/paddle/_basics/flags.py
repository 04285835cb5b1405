"""FLAGS_*: settings of the process, from the environment and from set_flags."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import paddle._core as core

__all__ = ["set_flags", "get_flags"]

#: flags of Paddle with their defaults, which give the types; most have no effect on this engine
_DEFAULTS: dict[str, Any] = {
    "FLAGS_check_nan_inf": False,
    "FLAGS_cpu_deterministic": False,
    "FLAGS_eager_delete_tensor_gb": 0.0,
    "FLAGS_enable_parallel_graph": False,
    "FLAGS_fast_eager_deletion_mode": True,
    "FLAGS_fuse_parameter_groups_size": 1,
    "FLAGS_fuse_parameter_memory_size": -1.0,
    "FLAGS_allocator_strategy": "auto_growth",
    "FLAGS_fraction_of_gpu_memory_to_use": 0.92,
    "FLAGS_initial_gpu_memory_in_mb": 0,
    "FLAGS_reallocate_gpu_memory_in_mb": 0,
    "FLAGS_cudnn_deterministic": False,
    "FLAGS_cudnn_exhaustive_search": False,
    "FLAGS_conv_workspace_size_limit": 512,
    "FLAGS_max_inplace_grad_add": 0,
    "FLAGS_memory_fraction_of_eager_deletion": 1.0,
    "FLAGS_selected_gpus": "",
    "FLAGS_sort_sum_gradient": False,
    "FLAGS_sync_nccl_allreduce": True,
    "FLAGS_paddle_num_threads": 1,
    "FLAGS_use_mkldnn": False,
    "FLAGS_use_pinned_memory": True,
    "FLAGS_use_system_allocator": False,
    "FLAGS_benchmark": False,
    "FLAGS_call_stack_level": 2,
    "FLAGS_tracer_profile_fname": "",
    # timeout of a trainer's request to a parameter server (milliseconds), and number of retries
    "FLAGS_rpc_deadline": 180000,
    "FLAGS_rpc_retry_times": 3,
    "FLAGS_communicator_max_merge_var_num": 20,
    "FLAGS_communicator_send_queue_size": 20,
    "FLAGS_communicator_independent_recv_thread": True,
    "FLAGS_communicator_min_send_grad_num_before_recv": 20,
    "FLAGS_communicator_thread_pool_size": 5,
    "FLAGS_communicator_send_wait_times": 5,
    "FLAGS_communicator_merge_sparse_grad": True,
    "FLAGS_communicator_is_sgd_optimizer": True,
    # Oar's own: upper bound of a trainer's steps whose gradients are not yet sent and received (0: no bound)
    "FLAGS_communicator_max_staleness": 0,
    # Oar's own: Winograd's algorithm for float32 convolutions of 3 x 3 filters with stride 1, where it is faster
    # (their rounding error is up to four times a direct convolution's)
    "FLAGS_conv_winograd": True,
    # Oar's own: large float32 matrix products on the matrix unit (AMX), where the processor has one, as six products of
    # bfloat16 parts (their rounding error is below that of a chain of multiply-adds)
    "FLAGS_amx_products": True,
    # Oar's own: element type of mixed precision on the CPU, float16 or bfloat16 (empty: auto_cast and GradScaler have
    # no effect, as in 2.0.2, and static decorate takes float16)
    "FLAGS_cpu_amp": "",
    # Oar's own: the folder of a parameter server's durable state, from which a restarted server continues (empty:
    # none); whether the state includes a log of the updates since the last snapshot; steps, and megabytes of the log,
    # between two snapshots; whether a reply waits for fsync, so that the state survives a failure of the machine
    "FLAGS_ps_state_folder": "",
    "FLAGS_ps_log": True,
    "FLAGS_ps_snapshot_steps": 1000,
    "FLAGS_ps_log_megabytes": 1024,
    "FLAGS_ps_log_fsync": False,
    # Oar's own: the folder of a server in which checkpoint_notify writes (empty: the server's working folder)
    "FLAGS_ps_checkpoint_folder": "",
    # Oar's own: the release of Paddle whose arithmetic is computed where 2.0 changed it, "1.8" or "2.0"
    "FLAGS_compat": "2.0",
}
#: flags that the engine reads
_SERVERS = ("FLAGS_rpc_", "FLAGS_communicator_", "FLAGS_ps_")


#: the values of flags that are one of several texts
_CHOICES = {"FLAGS_compat": ("1.8", "2.0"), "FLAGS_cpu_amp": ("", "float16", "bfloat16")}


def _check_choice(name: str, value: Any) -> None:
    if name in _CHOICES and value not in _CHOICES[name]:
        raise ValueError(f"Flag {name} must be one of {', '.join(map(repr, _CHOICES[name]))}, but received {value!r}")


def _parse(text: str, like: Any) -> Any:
    if isinstance(like, bool):
        return text.strip().lower() in ("1", "true", "yes", "on", "t", "y")
    return type(like)(text)


def _initial() -> dict[str, Any]:
    values = dict(_DEFAULTS)
    for name, default in _DEFAULTS.items():
        if name in os.environ:
            try:
                values[name] = _parse(os.environ[name], default)
            except ValueError:
                raise ValueError(
                    f"the environment variable {name} must be a {type(default).__name__}, not {os.environ[name]!r}"
                ) from None
            _check_choice(name, values[name])
    return values


def _forget_recipes(_value: Any) -> None:
    """Drops the recorded calls of CUDA devices; without a device in use there are none."""
    cuda = sys.modules.get("paddle._cuda")
    if cuda is not None:
        cuda.forget_recipes()


#: switches of the engine, and the functions that set them; called where the value has changed
_SWITCHES = {
    "FLAGS_conv_winograd": core.set_conv_winograd,
    "FLAGS_amx_products": core.set_amx_products,
    "FLAGS_check_nan_inf": core.set_check_nan_inf,
    "FLAGS_conv_workspace_size_limit": _forget_recipes,
    "FLAGS_cudnn_deterministic": _forget_recipes,
    "FLAGS_cudnn_exhaustive_search": _forget_recipes,
    "FLAGS_compat": lambda release: core.set_compat_18(release == "1.8"),
}

_values = _initial()
for _name, _switch in _SWITCHES.items():
    if _values[_name] != _DEFAULTS[_name]:
        _switch(_values[_name])


def values() -> Mapping[str, Any]:
    """The values of all flags, now and later."""
    return _values


def set_flags(flags) -> None:
    """Set FLAGS_* settings.

    Args:
        flags (dict): name to value.

    Raises:
        TypeError: when `flags` is no dict. ValueError: for an unknown flag, or a value of another type.

    Examples:
        >>> import paddle
        >>> paddle.fluid.set_flags({"FLAGS_check_nan_inf": False})
    """
    if not isinstance(flags, dict):
        raise TypeError("set_flags: flags must be a dict")
    for name, value in flags.items():
        if name not in _values:
            raise ValueError(f"set_flags: flag {name} can not be set")
        default = _DEFAULTS[name]
        try:
            parsed = _parse(value, default) if isinstance(value, str) else type(default)(value)
        except (TypeError, ValueError):
            raise ValueError(f"Flag {name} takes a {type(default).__name__}, but received {value!r}") from None
        _check_choice(name, parsed)
        is_new, _values[name] = parsed != _values[name], parsed
        if name.startswith(_SERVERS):
            core.dist.set_server_flag(name, str(_values[name]))
        elif is_new and name in _SWITCHES:
            _SWITCHES[name](_values[name])


def cpu_amp() -> str | None:
    """The element type of `FLAGS_cpu_amp`, None where it is not set."""
    return _values["FLAGS_cpu_amp"] or None


def is_18() -> bool:
    """Whether FLAGS_compat is 1.8: what 2.0 changed is computed as in 1.8."""
    return _values["FLAGS_compat"] == "1.8"


def get_flags(flags) -> dict[str, Any]:
    """The values of FLAGS_* settings.

    Args:
        flags (str|list|tuple of str): names.

    Raises:
        TypeError: for other types. ValueError: for an unknown flag.

    Examples:
        >>> import paddle
        >>> paddle.fluid.get_flags("FLAGS_max_inplace_grad_add")
        {'FLAGS_max_inplace_grad_add': 0}
    """
    if isinstance(flags, str):
        flags = [flags]
    if not isinstance(flags, (list, tuple)):
        raise TypeError("get_flags: flags must be a name, or a list or tuple of names")
    for name in flags:
        if name not in _values:
            raise ValueError(f"get_flags: flag {name} can not be read")
    return {name: _values[name] for name in flags}
