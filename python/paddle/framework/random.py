"""The seed of the random generator."""

from paddle._basics.random import get_cuda_rng_state, seed, set_cuda_rng_state

__all__ = ["seed", "get_cuda_rng_state", "set_cuda_rng_state"]
