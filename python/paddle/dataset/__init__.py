"""paddle.dataset: readers of public data sets, fetched when first read and kept under ~/.cache/paddle/dataset."""

from . import common, imikolov, mnist, uci_housing

__all__: list[str] = []
