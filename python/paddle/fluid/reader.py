"""The older import path of the loaders."""

from paddle.io.collate import default_collate_fn
from paddle.io.dataloader import DataLoader
from paddle.io.generator import (
    DataLoaderBase,
    DatasetLoader,
    DygraphGeneratorLoader,
    GeneratorLoader,
    PyReader,
    keep_data_loader_order,
    use_pinned_memory,
)
from paddle.static.py_reader import loader_names as data_loader_unique_name_generator

__all__ = ["PyReader", "DataLoader", "default_collate_fn"]
