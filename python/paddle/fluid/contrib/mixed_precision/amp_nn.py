"""The older place of paddle.static.amp's amp_nn."""

from paddle.static.amp.amp_nn import check_finite_and_unscale, update_loss_scaling

__all__ = ["check_finite_and_unscale", "update_loss_scaling"]
