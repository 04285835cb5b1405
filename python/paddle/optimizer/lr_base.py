"""The base of all learning rate schedulers."""

from __future__ import annotations

from .lr_parts import SavedState


class LRScheduler(SavedState):
    """Base of all schedulers; a subclass gives `get_lr()`, which computes the rate of `self.last_epoch`.

    Args:
        learning_rate: float or int, the rate to start from (`base_lr`); TypeError otherwise.
        last_epoch: the epoch to continue after; -1 for a fresh start.
        verbose: whether each step prints the new rate.

    The constructor makes the first step, so that `last_epoch` is 0 after a fresh start.

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

    # The name of the Program's variable that an optimizer feeds the rate into.
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
        """Goes to the next epoch, or to `epoch`, and computes its rate."""
        if epoch is None:
            self.last_epoch += 1
            self.last_lr = self.get_lr()
        else:
            self.last_epoch = epoch
            # A rate that is computed from the one before cannot jump: such a scheduler has a second formula.
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
        """The rate of `self.last_epoch`; given by the subclass."""
        raise NotImplementedError(f"'get_lr' not implement in class {type(self).__name__}")
