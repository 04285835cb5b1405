"""The older import path of the iterators behind a DataLoader."""

from paddle.io.collate import default_collate_fn
from paddle.io.dataloader import _DataLoaderIterBase, _DataLoaderIterMultiProcess, _DataLoaderIterSingleProcess
from paddle.io.fetcher import _DatasetKind
from paddle.io.worker import WorkerInfo, __all__, _worker_loop, get_worker_info
