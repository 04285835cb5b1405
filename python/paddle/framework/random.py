"""The global random generator's seed."""

from paddle._basics.random import get_cuda_rng_state, seed, set_cuda_rng_state
from paddle._programs.guards import _manual_program_seed  # noqa: F401 (2.0.2 has it here)

__all__ = ["seed", "get_cuda_rng_state", "set_cuda_rng_state"]
