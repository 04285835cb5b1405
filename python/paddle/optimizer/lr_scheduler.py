"""LRScheduler, the base of learning rate schedulers; state and checks shared with the schedulers of fluid.dygraph."""

from __future__ import annotations

import warnings
from typing import Any

import paddle._core as core
from paddle._basics.checks import check_positive


def _is_tensor(value: object) -> bool:
    return isinstance(value, core.Tensor)


def check_milestones(milestones: Any) -> None:
    """TypeError unless `milestones` is a tuple or list, ValueError unless its epochs increase."""
    if not isinstance(milestones, (tuple, list)):
        raise TypeError(f"MultiStepDecay: milestones must be a tuple or list, got {type(milestones)}")
    if any(a >= b for a, b in zip(milestones, milestones[1:], strict=False)):
        raise ValueError("milestones must increase")


def check_step_size(step_size: Any) -> None:
    """TypeError unless `step_size` is an int, ValueError unless it is positive."""
    if not isinstance(step_size, int):
        raise TypeError(f"StepDecay: step_size must be an int, got {type(step_size)}")
    check_positive("StepDecay", step_size=step_size)


def check_factor(name: str, value: float) -> None:
    """ValueError unless the factor of a decay is below one."""
    if value >= 1.0:
        raise ValueError(f"{name} must be below 1.0, got {value}")


class SavedState:
    """A scheduler whose attributes named in `self.keys` are saved and restored."""

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
        """Restores what `state_dict()` returned; RuntimeError if an entry is missing."""
        self._list_keys()
        for key in self.keys:
            if key not in state_dict:
                raise RuntimeError(f"set_state_dict: the state_dict has no '{key}'; does it belong to this scheduler?")
            self.__dict__[key] = state_dict[key]
        if len(state_dict) > len(self.keys):
            warnings.warn(
                "set_state_dict: the state_dict has entries that this scheduler does not use; does it belong to one "
                "of another class?",
                stacklevel=2,
            )

    set_dict = set_state_dict


class Plateau:
    """Detects when a sequence of metric values stops improving."""

    # The attribute with the best value: its name in saved states.
    _BEST = "best"

    def _watch(
        self, mode: str, factor: float, threshold: float, threshold_mode: str, patience: int, cooldown: int, what: str
    ) -> None:
        """Stores the arguments; `factor`, named `what` in messages, is only checked. ValueError for invalid ones."""
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
        """Whether to reduce the rate after the next epoch's `value`."""
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


class LRScheduler(SavedState):
    """Base of all schedulers; a subclass implements `get_lr()`, which computes the rate of `self.last_epoch`.

    Args:
        learning_rate: float or int, the initial rate (`base_lr`); TypeError otherwise.
        last_epoch: the epoch to continue after; -1 to start.
        verbose: whether each step prints the new rate.

    The constructor performs the first step, so that `last_epoch` is 0 initially.

    Examples:
        >>> from paddle.optimizer.lr import LRScheduler
        >>> class Halving(LRScheduler):
        ...     def get_lr(self):
        ...         return self.base_lr * 0.5**self.last_epoch
        >>> rate = Halving(1.0)
        >>> rate.step()
        >>> rate()
        0.5
    """

    # The name of the Program variable that receives the rate.
    _var_name: str | None

    def __init__(self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False) -> None:
        if not isinstance(learning_rate, (float, int)):
            raise TypeError(f"learning_rate must be a float, got {type(learning_rate)}")
        self.base_lr = float(learning_rate)
        self.last_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.verbose = verbose
        self._var_name = None
        self.step()

    def __call__(self) -> float:
        """The current rate."""
        return self.last_lr

    def step(self, epoch: int | None = None) -> None:
        """Advances to the next epoch, or to `epoch`, and computes its rate."""
        if epoch is None:
            self.last_epoch += 1
            self.last_lr = self.get_lr()
        else:
            self.last_epoch = epoch
            # A recursively defined rate needs a closed form to jump to an epoch.
            self.last_lr = getattr(self, "_get_closed_form_lr", self.get_lr)()
        self._report()

    def _report(self) -> None:
        if self.verbose:
            print(f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to {self.last_lr}.")

    def state_keys(self) -> None:
        """Sets `self.keys`, the names of the attributes to save; a subclass with more state overrides it."""
        self.keys = ["last_epoch", "last_lr"]

    def _list_keys(self) -> None:
        self.state_keys()

    def get_lr(self) -> float:
        """The rate of `self.last_epoch`; implemented by subclasses."""
        raise NotImplementedError(f"'get_lr' not implement in class {type(self).__name__}")
