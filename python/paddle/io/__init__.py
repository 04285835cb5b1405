"""paddle.io: datasets, samplers and the DataLoader."""

from paddle.io.batch_sampler import BatchSampler, DistributedBatchSampler
from paddle.io.dataloader import DataLoader
from paddle.io.dataset import (
    ChainDataset,
    ComposeDataset,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    random_split,
)
from paddle.io.sampler import RandomSampler, Sampler, SequenceSampler, WeightedRandomSampler
from paddle.io.worker import get_worker_info

__all__ = [
    "Dataset",
    "IterableDataset",
    "TensorDataset",
    "ComposeDataset",
    "ChainDataset",
    "BatchSampler",
    "DistributedBatchSampler",
    "DataLoader",
    "get_worker_info",
    "Sampler",
    "SequenceSampler",
    "RandomSampler",
    "WeightedRandomSampler",
    "random_split",
    "Subset",
]
