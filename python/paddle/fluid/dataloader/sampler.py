"""The older import path of paddle.io's samplers."""

from paddle.io.sampler import (
    RandomSampler,
    Sampler,
    SequenceSampler,
    WeightedRandomSampler,
    __all__,
    _weighted_sample,
)
