"""From the third training step on, operators run in Rust by recipes: the calls that still go through Python launchers
are those of a short list with a reason each, and tables of an optimizer are not uploaded again."""

from __future__ import annotations

import warnings
from collections import Counter

import paddle
import pytest
from networks import NETWORKS
from paddle import _cuda
from test_networks import given
from test_recipes import driven, driver  # noqa: F401

#: operators without a recipe -> the reason
THROUGH_PYTHON: dict[str, str] = dict.fromkeys(
    ("generate_proposals", "mine_hard_examples"), "the number of boxes depends on values: a LoD"
)


def calls(name: str, step: int) -> Counter:
    """The calls of launchers in a step of a network, by operator."""
    network, found = NETWORKS[name], Counter()
    runtime = _cuda.runtime()
    run = runtime._run

    def counted(op, *args, **more):
        found[op] += 1
        return run(op, *args, **more)

    runtime._run = counted
    paddle.set_device("gpu")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            paddle.seed(3)
            model = network.make()
            batch = [given(item) for item in network.batch]
            optimizer = network.optimizer(model.parameters())
            for _ in range(step):
                found.clear()
                runtime.machine.arguments.clear()
                loss = network.loss(model, *batch)
                loss.backward()
                optimizer.step()
                optimizer.clear_grad()
    finally:
        paddle.set_device("cpu")
        runtime._run = run
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_a_step_goes_through_python_only_for_listed_operators(name, driver):  # noqa: F811
    found = calls(name, 3)
    assert set(found) <= set(THROUGH_PYTHON), f"in the third step: {dict(found)}"
    assert driver.arguments == [], "the tables of an optimizer are uploaded again"
