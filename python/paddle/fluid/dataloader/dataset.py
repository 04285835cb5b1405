"""The older import path of paddle.io's datasets."""

from paddle.io.dataset import (
    ChainDataset,
    ComposeDataset,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    __all__,
    random_split,
    to_list,
)
