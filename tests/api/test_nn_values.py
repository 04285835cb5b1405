"""Functions, layers and optimizers, compared with values recorded from Paddle 2.6.2."""

import json
import pathlib

import nn_cases
import numpy as np
import pytest

VALUES = json.loads(pathlib.Path(__file__).with_name("nn_values.json").read_text())


def test_all_recorded():
    assert set(VALUES) == set(nn_cases.CASES)


@pytest.mark.parametrize("name", sorted(nn_cases.CASES))
def test_value(name):
    np.testing.assert_allclose(nn_cases.CASES[name](), VALUES[name], rtol=2e-4, atol=2e-5)
