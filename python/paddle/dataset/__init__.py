"""paddle.dataset: readers of public data sets, downloaded on first use and cached in ~/.cache/paddle/dataset."""

from paddle._basics.missing import getter as _getter

from . import common

__all__: list[str] = []

_LATER = "cifar conll05 flowers image imdb imikolov mnist movielens uci_housing voc2012 wmt14 wmt16".split()

__getattr__ = _getter(__name__, later={name: f"paddle.dataset.{name}" for name in _LATER})
