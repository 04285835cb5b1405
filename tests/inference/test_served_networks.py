"""Served multilayer perceptrons and recurrent networks of batch 1: packed weights, clones in threads, saved models."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.static.nn import fc
from served import in_threads, outputs_of, panels_of, predictor_of


def recurrent(kind, hidden, direction):
    def build(x):
        network = kind(24, hidden, num_layers=2, direction=direction)
        network.eval()
        return nn.Linear(hidden * (2 if direction == "bidirectional" else 1), 3)(network(x)[0][:, -1])

    return build


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.SimpleRNN])
def test_packed_recurrent_weights_change_no_result(export, kind, direction):
    prefix = export(recurrent(kind, 80, direction), ([None, 7, 24], "float32"))
    packed, plain = predictor_of(prefix), predictor_of(prefix, lambda c: c.switch_ir_optim(False))
    assert len(packed._session.model.panels) >= (8 if direction == "bidirectional" else 4)
    for batch in (1, 3, 1):
        x = np.random.RandomState(batch).randn(batch, 7, 24).astype("float32")
        np.testing.assert_allclose(outputs_of(packed, x)[0], outputs_of(plain, x)[0], rtol=1e-5, atol=1e-6)


def test_small_and_uneven_states_are_not_packed(export):
    for hidden in (48, 70):
        prefix = export(recurrent(nn.LSTM, hidden, "forward"), ([None, 7, 24], "float32"))
        predictor = predictor_of(prefix)
        assert not predictor._session.model.panels
        x = np.random.RandomState(0).randn(1, 7, 24).astype("float32")
        plain = predictor_of(prefix, lambda c: c.switch_ir_optim(False))
        np.testing.assert_allclose(outputs_of(predictor, x)[0], outputs_of(plain, x)[0], rtol=1e-5, atol=1e-6)


def test_sequence_lengths(export):
    def build(x, lengths):
        network = nn.LSTM(24, 64, num_layers=2, direction="bidirectional")
        network.eval()
        return network(x, sequence_length=lengths)[0]

    prefix = export(build, ([None, 7, 24], "float32"), ([None], "int64"))
    packed, plain = predictor_of(prefix), predictor_of(prefix, lambda c: c.switch_ir_optim(False))
    x = np.random.RandomState(0).randn(1, 7, 24).astype("float32")
    for length in (1, 5, 7):
        lengths = np.array([length], "int64")
        got, want = outputs_of(packed, x, lengths)[0], outputs_of(plain, x, lengths)[0]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        assert not got[0, length:].any()


def test_clones_in_threads_give_the_same_bits(export):
    prefix = export(lambda x: fc(fc(x, 512, activation="relu"), 300), ([None, 784], "float32"))
    predictor = predictor_of(prefix)
    inputs = [np.random.RandomState(i).randn(1, 784).astype("float32") for i in range(4)]
    want = [outputs_of(predictor, x)[0] for x in inputs]
    wrong = []

    def serve(i):
        clone = predictor.clone()
        for _ in range(50):
            if not np.array_equal(outputs_of(clone, inputs[i])[0], want[i]):
                wrong.append(i)

    in_threads(serve, [(i,) for i in range(4)])
    assert not wrong


def test_threads_of_a_predictor_do_not_show(export):
    prefix = export(recurrent(nn.LSTM, 128, "forward"), ([None, 9, 24], "float32"))
    x = np.random.RandomState(0).randn(1, 9, 24).astype("float32")
    one, two = (
        outputs_of(predictor_of(prefix, lambda c, n=n: c.set_cpu_math_library_num_threads(n)), x)[0] for n in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


def test_saved_models_are_without_packed_weights(export, tmp_path):
    prefix = export(recurrent(nn.GRU, 64, "forward"), ([None, 7, 24], "float32"))
    model = predictor_of(prefix)._session.model
    program = paddle.static.Program.parse_from_string(model.serialized())
    block = program.global_block()
    assert model.panels and not model.panels & set(block.vars)
    assert not panels_of(block)
