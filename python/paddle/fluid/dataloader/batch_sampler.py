"""The older import path of paddle.io's batch samplers."""

from paddle.io.batch_sampler import BatchSampler, DistributedBatchSampler, __all__, _InfiniteIterableSampler
