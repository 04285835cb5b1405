"""paddle.utils.unique_name: generation of unique variable names."""

from paddle._basics.unique_name import generate, guard, switch

__all__ = ["generate", "switch", "guard"]
