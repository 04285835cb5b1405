"""MetaOptimizerFactory: one meta-optimizer of each registered strategy."""

from __future__ import annotations

from typing import Any

from .. import meta_optimizers as _registers  # noqa: F401 (its modules register their strategies)
from .strategy_registry import registered

__all__: list[str] = []


class MetaOptimizerFactory:
    """Makes the meta-optimizers from which a strategy's flags choose."""

    def _get_valid_meta_optimizers(self, user_defined_optimizer: Any) -> list[Any]:
        return [strategy(user_defined_optimizer) for strategy in registered()]
