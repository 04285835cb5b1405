"""The older import path of the fetchers behind a DataLoader."""

from paddle.io.fetcher import _DatasetFetcher, _IterableDatasetFetcher, _MapDatasetFetcher
