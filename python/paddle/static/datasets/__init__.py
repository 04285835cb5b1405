"""Training from data sets: what a data set is to the engine, the threads that train, and their descriptions."""

from .data_set import BoxPS, Dataset
from .fetch_handler import FetchHandler, FetchHandlerMonitor
from .from_dataset import run_from_dataset

__all__ = ["BoxPS", "Dataset", "FetchHandler", "FetchHandlerMonitor", "run_from_dataset"]
