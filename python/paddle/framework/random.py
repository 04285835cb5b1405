"""Seeds of Programs."""

from .guards import default_main_program, default_startup_program

__all__: list[str] = []


def _manual_program_seed(seed: int) -> None:
    """Seed the two default Programs, and the Programs made from now on."""
    default_main_program().random_seed = seed
    default_startup_program().random_seed = seed
    from .program import Program

    Program().global_seed(seed)
