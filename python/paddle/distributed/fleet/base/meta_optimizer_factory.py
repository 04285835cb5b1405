"""MetaOptimizerFactory: one of each optimizer of a strategy."""

from __future__ import annotations

from typing import Any

from .. import meta_optimizers

__all__: list[str] = []

#: their order decides between chains of the same length
meta_optimizer_names = sorted(meta_optimizers.__all__)


class MetaOptimizerFactory:
    """Makes the optimizers of which a strategy may choose."""

    def _get_valid_meta_optimizers(self, user_defined_optimizer: Any) -> list[Any]:
        return [getattr(meta_optimizers, name)(user_defined_optimizer) for name in meta_optimizer_names]
