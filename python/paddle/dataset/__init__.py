"""paddle.dataset: readers of public data sets, which are fetched when first read."""
from . import common, uci_housing

__all__: list[str] = []
