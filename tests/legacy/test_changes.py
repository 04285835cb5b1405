"""What 2.0 computes otherwise than 1.8: each row of the table in both settings of FLAGS_compat.

`changes.json` has the numbers of 1.8: they are those of PaddlePaddle 1.8.5, computed by this file's programs. Those of
2.0 are this package's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle._basics import flags
from paddle._basics.changes import CHANGES
from paddle.fluid import layers

NUMBERS = json.loads((Path(__file__).parent / "changes.json").read_text())


@pytest.fixture(params=["1.8", "2.0"])
def release(request):
    flags.set_flags({"FLAGS_compat": request.param})
    paddle.enable_static()
    yield request.param
    paddle.disable_static()
    flags.set_flags({"FLAGS_compat": "2.0"})


def fetched(build, feed):
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        out = build()
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(scope), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exe.run(startup)
        return exe.run(main, feed=feed, fetch_list=out)


def trained(optimizer):
    """The parameter after the first and the fourth step."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        start = fluid.initializer.NumpyArrayInitializer(np.float32([0.5, -1, 2]))
        w = layers.create_parameter([3], "float32", name="w", default_initializer=start)
        loss = layers.reduce_sum(w * w * fluid.data("x", [3], "float32"))
        optimizer().minimize(loss)
    exe, found = fluid.Executor(fluid.CPUPlace()), []
    with fluid.scope_guard(scope):
        exe.run(startup)
        for step in range(4):
            exe.run(main, feed={"x": np.float32([1e-3, 1, 0.1]) * (step + 1)}, fetch_list=[loss])
            found.append(np.array(scope.find_var("w").get_tensor()))
    return [found[0], found[-1]]


def operator_axis():
    def build():
        x, y = fluid.data("x", [None, 2], "float32"), fluid.data("y", [None], "float32")
        return [x * y, x + y, x - y]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fetched(build, {"x": np.arange(4, dtype="float32").reshape(2, 2), "y": np.float32([10, 20])})


def integer_scalar():
    def build():
        x = fluid.data("x", [4], "int32")
        return [x + 1.0, x * 2, x / 2, 7 - x]

    return fetched(build, {"x": np.int32([-3, -1, 2, 5])})


def remainder():
    def build():
        x, y = fluid.data("x", [4], "int64"), fluid.data("y", [4], "int64")
        return [x % y, layers.elementwise_mod(x, y)]

    return fetched(build, {"x": np.int64([-7, 7, -7, 7]), "y": np.int64([3, -3, -3, 3])})


def adam_epsilon():
    return trained(lambda: fluid.optimizer.Adam(0.1, epsilon=1e-3))


def adamw_epsilon():
    kind = fluid.contrib.extend_with_decoupled_weight_decay(fluid.optimizer.Adam)
    return trained(lambda: kind(learning_rate=0.1, epsilon=1e-3, weight_decay=0.01))


def of_rows(optimizer):
    """The table after four steps; a step has a gradient of two rows or of one."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        start = fluid.initializer.NumpyArrayInitializer(np.arange(6, dtype="float32").reshape(3, 2))
        table = fluid.ParamAttr("w", initializer=start)
        row = layers.embedding(fluid.data("i", [2, 1], "int64"), [3, 2], is_sparse=True, param_attr=table)
        optimizer.minimize(layers.reduce_sum(layers.square(row)))
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(scope):
        exe.run(startup)
        for step in range(4):
            exe.run(main, feed={"i": np.int64([[step % 3], [2]])})
        return np.array(scope.find_var("w").get_tensor())


def sparse_adam():
    return [of_rows(fluid.optimizer.Adam(0.1, epsilon=1e-3, lazy_mode=lazy)) for lazy in (False, True)]


def lamb_bias():
    return trained(lambda: fluid.optimizer.Lamb(0.1, lamb_weight_decay=0.01))


def lars_without_decay():
    return trained(lambda: fluid.optimizer.LarsMomentum(0.1, momentum=0.9, lars_weight_decay=0.0))


def lookahead():
    return trained(lambda: fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.1), 0.5, 2))


def linear_warmup():
    with fluid.dygraph.guard():
        rate = fluid.dygraph.LinearLrWarmup(0.5, 4, 0.1, 0.9)
        return [[np.array(rate().numpy()).item() for _ in range(5)]]


class Ones(fluid.dataloader.Dataset):
    def __getitem__(self, i):
        return (np.ones(2, "float32"),)

    def __len__(self):
        return 2


def loader_fields():
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        loader = fluid.io.DataLoader(Ones(), [fluid.data("x", [None, 2])], fluid.cpu_places(1), batch_size=2)
        (batch,) = list(loader)
    return [[isinstance(batch[0], dict)]]


def dygraph_bias():
    with fluid.dygraph.guard():
        layer = fluid.dygraph.Conv3DTranspose(1, 2, 1, param_attr=fluid.initializer.Constant(2.0))
        layer.bias.set_value(np.float32([1, -1]))
        out = layer(fluid.dygraph.to_variable(np.ones((1, 1, 1, 1, 1), "float32"))).numpy()
        return [out.ravel(), [len(fluid.dygraph.NCE(3, 2).parameters())]]


def quantized(kind, freeze):
    """What a quantized fc gives after two steps; and, frozen, its weight."""
    from paddle.fluid.contrib.slim import quantization
    from paddle.fluid.framework import IrGraph

    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        start = fluid.initializer.NumpyArrayInitializer(np.float32([[0.1, 1.0], [0.7, -3.0], [-0.2, 0.5]]))
        out = layers.fc(fluid.data("x", [2, 3]), 2, param_attr=fluid.ParamAttr("w", initializer=start), bias_attr=False)
        test = main.clone(for_test=True)
        fluid.optimizer.SGD(0.1).minimize(layers.reduce_sum(layers.square(out)))
    place = fluid.CPUPlace()
    exe, feed = fluid.Executor(place), {"x": np.float32([[1, 0.5, 0.2], [0.3, -1, 0.1]])}
    how = {"weight_quantize_type": kind, "activation_quantize_type": "moving_average_abs_max"}
    with fluid.scope_guard(scope):
        exe.run(startup)
        graphs = []
        for program, for_test in ((main, False), (test, True)):
            graph = IrGraph(fluid.core.Graph(program.desc), for_test=for_test)
            quantization.QuantizationTransformPass(scope, place, quantizable_op_type=["mul"], **how).apply(graph)
            graphs.append(graph)
        training = graphs[0].to_program()
        found = [exe.run(training, feed=feed, fetch_list=[out.name])[0] for _ in range(2)]
        if not freeze:
            return found
        frozen = quantization.QuantizationFreezePass(scope, place, weight_quantize_type=kind)
        program = frozen.apply(graphs[1]).to_program()
        return [np.array(scope.find_var("w").get_tensor()), exe.run(program, feed=feed, fetch_list=[])]


def quantized_mul():
    return quantized("channel_wise_abs_max", freeze=False)


def frozen_scale():
    return quantized("abs_max", freeze=True)[:1]


@pytest.mark.parametrize("key", NUMBERS)
def test_numbers(key, release):
    for got, expected in zip(globals()[key](), NUMBERS[key][release], strict=True):
        np.testing.assert_allclose(np.array(got), expected, rtol=1e-5, atol=1e-6)


def test_every_row_has_numbers_that_differ():
    assert {row.key for row in CHANGES} | {"adamw_epsilon"} == set(NUMBERS)
    assert all(numbers["1.8"] != numbers["2.0"] for numbers in NUMBERS.values())


def test_integers_take_no_fractions_in_18(release):
    x = fluid.data("x", [4], "int32")
    if release == "1.8":
        with pytest.raises(AssertionError, match=re.escape("the number 1.5 cannot be an operand")):
            x + 1.5
    else:
        assert (x + 1.5).dtype == fluid.core.VarDesc.VarType.FP32


def test_a_different_axis_warns_once_with_its_line():
    paddle.enable_static()
    with fluid.program_guard(fluid.Program(), fluid.Program()), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        x, y = fluid.data("x", [None, 2]), fluid.data("y", [None])
        for _ in range(2):
            _ = x * y
        _ = x * fluid.data("z", [None, 2])
        _ = x * fluid.data("v", [2])
    paddle.disable_static()
    (warning,) = seen
    text = str(warning.message)
    assert "has been unified with elementwise_mul(X, Y, axis=-1) from Paddle 2.0" in text and "FLAGS_compat=1.8" in text
    assert text.startswith(f"{__file__}:{warning.lineno}: ") and warning.filename == __file__


def test_the_flag():
    assert paddle.get_flags("FLAGS_compat") == {"FLAGS_compat": "2.0"}
    with pytest.raises(ValueError, match=re.escape("FLAGS_compat must be one of '1.8', '2.0', but received '1.7'")):
        paddle.set_flags({"FLAGS_compat": "1.7"})
    assert paddle.get_flags("FLAGS_compat") == {"FLAGS_compat": "2.0"}
    code = "import paddle; print(paddle.get_flags('FLAGS_compat'))"
    for value, status in (("1.8", 0), ("1.7", 1)):
        environment = {**os.environ, "FLAGS_compat": value}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
        assert done.returncode == status, done.stderr
        assert value in done.stdout + done.stderr


def test_the_page_has_the_table():
    script = Path(__file__).parents[2] / "docs" / "_ext" / "changes_table.py"
    assert subprocess.run([sys.executable, str(script), "--check"], timeout=60).returncode == 0
