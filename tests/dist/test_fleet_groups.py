"""Groups of groups on four ranks: several sharded groups or pipelines, which average their gradients."""

from __future__ import annotations

import numpy as np
import pytest
from fleet_jobs import alone, launched

HYBRID = ["hybrid", "hybrid_adam"]
PIPES = ["pipe", "pipe_adam"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return launched(tmp_path_factory.mktemp("groups"), 4, *HYBRID, *PIPES)


@pytest.mark.parametrize("name", [*HYBRID, *PIPES])
def test_four_ranks_train_as_one_process(trained, name):
    losses, parameters = alone(name)
    # The first section of a pipeline has no loss.
    known = [found[name]["losses"] for found in trained if None not in found[name]["losses"]]
    assert len(known) == (2 if name in PIPES else 4)
    np.testing.assert_allclose(np.mean(known, axis=0), losses, rtol=1e-5, atol=1e-5)
    for found in trained:
        mine = found[name]["parameters"]
        assert mine
        for key, value in mine.items():
            np.testing.assert_allclose(np.float32(value), parameters[key], rtol=1e-5, atol=1e-5, err_msg=key)


@pytest.mark.parametrize("name", HYBRID)
def test_each_group_holds_every_parameter_once(trained, name):
    held = [set(found[name]["parameters"]) for found in trained]
    assert held[0] == held[2] and held[1] == held[3]
    assert not held[0] & held[1] and held[0] | held[1] == set(alone(name)[1])


@pytest.mark.parametrize("name", PIPES)
def test_each_pipeline_has_both_sections(trained, name):
    held = [set(found[name]["parameters"]) for found in trained]
    assert held == [{"w0", "b0"}, {"w1", "b1", "w2", "b2"}] * 2
    assert [found[name]["losses"][0] is None for found in trained] == [True, False] * 2
