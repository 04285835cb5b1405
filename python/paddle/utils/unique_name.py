"""Names that no other variable has."""

from paddle._basics.unique_name import generate, guard, switch

__all__ = ["generate", "switch", "guard"]
