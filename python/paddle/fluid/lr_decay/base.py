"""LearningRateDecay: the base of the learning rate decays of fluid.dygraph."""

from __future__ import annotations

from typing import Any

from paddle._basics import unique_name
from paddle._basics.mode import in_static_mode
from paddle.optimizer.lr_scheduler import SavedState
from paddle.static.creation import create_global_var
from paddle.tensor.creation import full

__all__ = ["LearningRateDecay"]


class LearningRateDecay(SavedState):
    """Base class: a subclass implements `step()`, which returns the rate at `self.step_num` as a float or a Tensor.

    Args:
        begin (int): the first step.
        step (int): increment of the step per call.
        dtype (str): type of the rate: float32 or float64.

    Calling the object returns the rate of the current step and advances to the next one. An optimizer does so in
    ``minimize``.

    Examples:
        >>> from paddle.fluid.dygraph.learning_rate_scheduler import LearningRateDecay
        >>> class Halving(LearningRateDecay):
        ...     def step(self):
        ...         return 0.5**self.step_num
        >>> rate = Halving()
        >>> rate().numpy(), rate().numpy(), rate.step_num
        (array([1.], dtype=float32), array([0.5], dtype=float32), 2)
    """

    def __init__(self, begin: int = 0, step: int = 1, dtype: str = "float32") -> None:
        self.step_num = begin
        self.step_size = step
        self.dtype = dtype

    def __call__(self) -> Any:
        """The rate of this step; advances the step."""
        rate = self.step()
        if isinstance(rate, (float, int)):
            rate = self.create_lr_var(rate)
        self.step_num += self.step_size
        return rate

    def create_lr_var(self, lr: float) -> Any:
        """A Tensor of the shape [1] that holds the number `lr`; in static mode a constant of the Program."""
        if in_static_mode():
            return full([1], float(lr), self.dtype)
        return create_global_var(
            name=unique_name.generate("learning_rate"),
            shape=[1],
            value=float(lr),
            dtype=self.dtype,
            persistable=False,
        )

    def step(self) -> Any:
        """The rate at `self.step_num`; implemented by subclasses."""
        raise NotImplementedError(f"'step' is not implemented in class {type(self).__name__}")

    def _state_keys(self) -> None:
        """Sets `self.keys`, the names of the attributes to save; a subclass with other state overrides it."""
        self.keys = ["step_num"]

    def _list_keys(self) -> None:
        self._state_keys()
