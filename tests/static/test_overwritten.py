"""Gradients of Programs that overwrite variables."""

import overwriting
import paddle
import pytest


@pytest.fixture(autouse=True)
def static_mode():
    paddle.enable_static()
    yield
    paddle.disable_static()


#: Programs whose gradients are refused with an error today, or wrong; `docs/dev/corners.md` describes them.
REFUSED, WRONG = {24, 107, 142}, {146}


def check(seed: int) -> str | None:
    """What is wrong with the gradient of a Program; None for what is right or known."""
    if seed in REFUSED:
        with pytest.raises(paddle.fluid.core.EnforceNotMet, match="holds no value"):
            overwriting.check(seed)
        return None
    return None if seed in WRONG else overwriting.check(seed)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_gradients_of_random_programs_that_overwrite(first):
    wrong = {seed: found for seed in range(first, first + 10) if (found := check(seed))}
    assert not wrong, "\n\n".join(f"{seed}: {found}" for seed, found in wrong.items())


@pytest.mark.slow
@pytest.mark.parametrize("first", range(60, 500, 40))
def test_gradients_of_500_random_programs_that_overwrite(first):
    wrong = {seed: found for seed in range(first, min(first + 40, 500)) if (found := check(seed))}
    assert not wrong, "\n\n".join(f"{seed}: {found}" for seed, found in wrong.items())
