"""The older import path of paddle.io's datasets and samplers."""

from paddle.fluid.dataloader import batch_sampler, dataloader_iter, dataset, sampler
from paddle.fluid.dataloader.batch_sampler import BatchSampler, DistributedBatchSampler
from paddle.fluid.dataloader.dataloader_iter import get_worker_info
from paddle.fluid.dataloader.dataset import *  # noqa: F403
from paddle.fluid.dataloader.sampler import RandomSampler, Sampler, SequenceSampler, WeightedRandomSampler

__all__ = dataset.__all__ + batch_sampler.__all__ + dataloader_iter.__all__ + sampler.__all__
