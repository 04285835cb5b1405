"""Training from data sets: fluid.core.Dataset, training threads, and the messages that describe them."""

from .data_set import BoxPS, Dataset
from .fetch_handler import FetchHandler, FetchHandlerMonitor
from .from_dataset import run_from_dataset

__all__ = ["BoxPS", "Dataset", "FetchHandler", "FetchHandlerMonitor", "run_from_dataset"]
