"""ParameterServerRuntime: of workers and parameter servers."""
from __future__ import annotations

from .runtime_base import RuntimeBase

__all__: list[str] = []

#: the states of an optimizer: those that servers cut as the parameter, and those that stay whole
_STATES = {
    "adam": (["moment1_0", "moment2_0"], ["beta1_pow_acc_0", "beta2_pow_acc_0"]),
    "adamax": (["moment_0", "inf_norm_0"], ["beta1_pow_acc_0"]),
    "rmsprop": (["momentum_0", "mean_square_0", "mean_grad_0"], []),
    "adagrad": (["moment_0"], []),
    "decayed_adagrad": (["moment_0"], []),
    "momentum": (["velocity_0"], []),
    "lars_momentum": (["velocity_0"], []),
    "sgd": ([], []),
    "ftrl": (["squared_0", "linear_0"], []),
}


class ParameterServerRuntime(RuntimeBase):
    """Starts, runs and ends the processes of a job with servers, and saves what the servers hold."""

    @staticmethod
    def _get_optimizer_status(op: str, param_name: str | None) -> tuple[list[str], list[str]]:
        """The names of an optimizer's states for a parameter: those that are cut with it, and those that are not.

        Raises:
            ValueError: for an operator that servers do not run.
        """
        if op not in _STATES:
            raise ValueError(f"fleet: the states of the operator {op!r} are not known to parameter servers")
        cut, whole = _STATES[op]
        return [f"{param_name}_{name}" for name in cut], [f"{param_name}_{name}" for name in whole]
