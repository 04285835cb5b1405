"""What the schedules of `paddle.optimizer.lr` and those of `fluid.dygraph` have in common."""

from __future__ import annotations

import warnings
from typing import Any

import paddle._core as core
from paddle._basics.checks import check_positive


def _is_tensor(value: object) -> bool:
    return isinstance(value, core.Tensor)


def check_milestones(milestones: Any) -> None:
    """TypeError unless it is a tuple or list, ValueError unless its epochs rise."""
    if not isinstance(milestones, (tuple, list)):
        raise TypeError(f"MultiStepDecay: milestones must be a tuple or list, got {type(milestones)}")
    if any(a >= b for a, b in zip(milestones, milestones[1:], strict=False)):
        raise ValueError("milestones must rise")


def check_step_size(step_size: Any) -> None:
    """TypeError unless it is an int, ValueError unless it is positive."""
    if not isinstance(step_size, int):
        raise TypeError(f"StepDecay: step_size must be an int, got {type(step_size)}")
    check_positive("StepDecay", step_size=step_size)


def check_factor(name: str, value: float) -> None:
    """ValueError unless the factor of a decay is below one."""
    if value >= 1.0:
        raise ValueError(f"{name} must be below 1.0, got {value}")


class SavedState:
    """A schedule whose attributes named by `self.keys` are saved and taken over again."""

    keys: list[str]

    def _list_keys(self) -> None:
        """Sets `self.keys`."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The values to save, by name; Tensors as numbers."""
        self._list_keys()
        state = {}
        for key in self.keys:
            if key not in self.__dict__:
                continue
            value = self.__dict__[key]
            if _is_tensor(value):
                assert list(value.shape) == [1], (
                    f"set_state_dict: a Tensor of the state_dict must have shape [1], got {value.shape}"
                )
                value = value.numpy()[0]
            state[key] = value
        return state

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict()` returned; RuntimeError if something is missing."""
        self._list_keys()
        for key in self.keys:
            if key not in state_dict:
                raise RuntimeError(f"set_state_dict: the state_dict has no '{key}'; is it that of this scheduler?")
            self.__dict__[key] = state_dict[key]
        if len(state_dict) > len(self.keys):
            warnings.warn(
                "set_state_dict: the state_dict has entries this schedule does not use; was it taken from a schedule "
                "of another class?",
                stacklevel=2,
            )

    set_dict = set_state_dict


class Plateau:
    """A watch over values that says when they have stopped getting better."""

    # The attribute that has the best value: it is saved under this name.
    _BEST = "best"

    def _watch(
        self, mode: str, factor: float, threshold: float, threshold_mode: str, patience: int, cooldown: int, what: str
    ) -> None:
        """Takes the arguments; `factor` is only checked, and `what` its name. ValueError for those that are wrong."""
        self.mode = mode.lower()
        if self.mode not in ("min", "max"):
            raise ValueError(f"mode: {self.mode} is unknown!")
        if factor >= 1.0:
            raise ValueError(f"{type(self).__name__}: {what} must be below 1.0")
        self.threshold_mode = threshold_mode.lower()
        if self.threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode: {self.threshold_mode} is unknown!")
        self.threshold = threshold
        self.patience = patience
        self.cooldown = cooldown
        self.cooldown_counter = 0
        self.num_bad_epochs = 0
        setattr(self, self._BEST, None)

    def _is_due(self, value: Any) -> bool:
        """Whether the rate is to be reduced after the next epoch's `value`."""
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return False
        best = getattr(self, self._BEST)
        if best is None or self._is_better(value, best):
            setattr(self, self._BEST, value)
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs <= self.patience:
            return False
        self.cooldown_counter = self.cooldown
        self.num_bad_epochs = 0
        return True

    def _is_better(self, current: Any, best: Any) -> Any:
        margin = best * self.threshold if self.threshold_mode == "rel" else self.threshold
        return current < best - margin if self.mode == "min" else current > best + margin
