"""Models that fluid.contrib.slim has quantised: a predictor gives slim's numbers."""

from __future__ import annotations

import numpy as np
import pytest
from paddle import fluid
from paddle.fluid import core
from paddle.fluid.contrib.slim.quantization import (
    AddQuantDequantPass,
    QuantizationFreezePass,
    QuantizationTransformPass,
)
from paddle.fluid.framework import IrGraph
from served import operators_of

PLACE = fluid.CPUPlace()


@pytest.mark.parametrize("weights", ["abs_max", "channel_wise_abs_max"])
def test_a_frozen_model(weights, tmp_path):
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 7
    with fluid.unique_name.guard(), fluid.program_guard(main, startup), fluid.scope_guard(core.Scope()):
        x = fluid.data("x", [None, 1, 8, 8])
        h = fluid.layers.batch_norm(fluid.layers.conv2d(x, 4, 3), act="relu")
        y = fluid.layers.fc(h, 3, act="relu")
        test = main.clone(for_test=True)
        exe, scope = fluid.Executor(PLACE), fluid.global_scope()
        exe.run(startup)
        graphs = IrGraph(core.Graph(main.desc), for_test=False), IrGraph(core.Graph(test.desc), for_test=True)
        for graph in graphs:
            QuantizationTransformPass(scope, PLACE, weight_quantize_type=weights).apply(graph)
            AddQuantDequantPass(scope, PLACE).apply(graph)
        data = np.random.RandomState(0).rand(6, 1, 8, 8).astype("float32")
        training = graphs[0].to_program()
        for _ in range(3):
            exe.run(training, feed={"x": data}, fetch_list=[y.name])
        QuantizationFreezePass(scope, PLACE, weight_quantize_type=weights).apply(graphs[1])
        frozen = graphs[1].to_program()
        (want,) = exe.run(frozen, feed={"x": data}, fetch_list=[y.name])
        block = frozen.global_block()
        fluid.io.save_inference_model(str(tmp_path), ["x"], [block.var(y.name)], exe, frozen)
    for optimise in (False, True):
        config = core.AnalysisConfig(str(tmp_path))
        config.switch_ir_optim(optimise)
        predictor = core.create_paddle_predictor(config)
        (got,) = predictor.run([core.PaddleTensor(data)])
        np.testing.assert_allclose(got.as_ndarray(), want, rtol=1e-5, atol=1e-5)
        assert any("dequant" in kind for kind in operators_of(predictor))
