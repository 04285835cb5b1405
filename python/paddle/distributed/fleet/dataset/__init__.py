"""Data sets of files for `Executor.train_from_dataset`."""

from __future__ import annotations

from .dataset import BoxPSDataset, DatasetBase, FileInstantDataset, InMemoryDataset, QueueDataset

__all__ = ["BoxPSDataset", "DatasetBase", "FileInstantDataset", "InMemoryDataset", "QueueDataset"]
