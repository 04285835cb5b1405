"""Gradients of Programs that overwrite variables."""

import overwriting
import paddle
import pytest


@pytest.fixture(autouse=True)
def static_mode():
    paddle.enable_static()
    yield
    paddle.disable_static()


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_gradients_of_random_programs_that_overwrite(first):
    wrong = {seed: found for seed in range(first, first + 10) if (found := overwriting.check(seed))}
    assert not wrong, "\n\n".join(f"{seed}: {found}" for seed, found in wrong.items())


@pytest.mark.slow
@pytest.mark.parametrize("first", range(60, 500, 40))
def test_gradients_of_500_random_programs_that_overwrite(first):
    wrong = {seed: found for seed in range(first, min(first + 40, 500)) if (found := overwriting.check(seed))}
    assert not wrong, "\n\n".join(f"{seed}: {found}" for seed, found in wrong.items())
