"""fluid.transpiler.collective: the operators are those of 2.0.2, and the Programs train over rings."""

from __future__ import annotations

import nccl2_training as training
import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle.distributed.launch.ports import free
from paddle.fluid.transpiler.collective import (
    Collective,
    GradAllReduce,
    LocalSGD,
    MultiThread,
    SingleProcessMultiThread,
)

ENDS = ["127.0.0.1:6170", "127.0.0.1:6171"]


def transpiled(transpiler, ends=ENDS, optimizer="sgd"):
    main, startup, _ = training.network(0, optimizer)
    transpiler.transpile(startup, main, 0, ",".join(ends), ends[0], False)
    return main, startup


def types(program) -> list[str]:
    return [op.type for op in program.global_block().ops]


def rings(program, kind: str) -> list[tuple[str, int]]:
    return [(op.input("X")[0], op.attr("ring_id")) for op in program.global_block().ops if op.type == kind]


class TestOperators:
    @pytest.fixture(autouse=True)
    def static(self):
        paddle.enable_static()
        yield
        paddle.disable_static()

    def test_grad_all_reduce(self):
        main, startup = transpiled(GradAllReduce(2))
        made = ["c_gen_nccl_id", "c_comm_init"] * 2 + ["c_broadcast"] * 4 + ["c_sync_comm_stream"] * 2
        assert types(startup)[-10:] == made
        assert rings(startup, "c_broadcast") == [("fc_0.w_0", 0), ("fc_0.b_0", 1), ("fc_1.w_0", 0), ("fc_1.b_0", 1)]
        found = types(main)
        assert found[found.index("fill_constant") :][:2] == ["fill_constant", "scale"]
        assert found[-6:] == ["c_sync_comm_stream"] * 2 + ["sgd"] * 4
        assert found.count("c_sync_calc_stream") == 4
        # rings alternate from the last gradient on: operators are inserted from the end
        sums = rings(main, "c_allreduce_sum")
        assert [name for name, _ in sums] == [n + "@GRAD" for n in ("fc_1.b_0", "fc_1.w_0", "fc_0.b_0", "fc_0.w_0")]
        assert [ring for _, ring in sums] == [1, 0, 1, 0]
        scale = next(op for op in main.global_block().ops if op.type == "scale")
        assert scale.attr("scale") == 0.5 and scale.attr("op_role") == 1
        assert main._origin_program is not main and "c_allreduce_sum" not in types(main._origin_program)

    def test_local_sgd(self):
        main, startup = transpiled(LocalSGD(1))
        assert types(startup)[-4:] == ["assign"] * 4
        assert startup.global_block().var("fc_0.w_0@SNAPSHOT").persistable
        found = types(main)
        assert found[-17:-12] == [
            "sgd",
            "elementwise_sub",
            "c_sync_calc_stream",
            "c_allreduce_sum",
            "c_sync_comm_stream",
        ]
        assert found[-12:] == ["scale", "elementwise_sub", "assign"] * 4
        assert [name for name, _ in rings(main, "c_allreduce_sum")][-1:] == ["fc_1.w_0"]

    def test_devices_of_one_process(self):
        main, startup = transpiled(SingleProcessMultiThread(), ENDS[:1])
        assert types(startup)[-1] == "c_comm_init_all"
        assert types(main).count("c_allreduce_sum") == 4
        main, startup = transpiled(MultiThread(), ENDS[:1])
        assert types(startup)[-1] == "c_comm_init_all"
        assert types(transpiled(MultiThread(2))[1])[-4:] == ["c_gen_nccl_id", "c_comm_init"] * 2

    @pytest.mark.parametrize(
        ("rank", "ends", "mine", "said"),
        [
            (0, ENDS[:1], ENDS[0], "several endpoints"),
            (-1, ENDS, ENDS[0], "rank must not be negative"),
            (0, ENDS, "127.0.0.1:1", "current_endpoint 127.0.0.1:1 is not among"),
        ],
    )
    def test_refused(self, rank, ends, mine, said):
        with pytest.raises(ValueError, match=said):
            GradAllReduce().transpile(None, None, rank, ends, mine, False)

    def test_a_transpiler_of_ones_own(self):
        with pytest.raises(NotImplementedError, match="must override _transpile_main_program"):
            transpiled(Collective(1))

    @pytest.mark.operators("c_comm_init_all")
    def test_one_process_trains(self):
        main, startup, loss = training.network(0)
        config = fluid.DistributeTranspilerConfig()
        config.mode, config.collective_mode = "collective", "single_process_multi_thread"
        fluid.DistributeTranspiler(config).transpile(
            0, program=main, startup_program=startup, trainers="127.0.0.1:1", current_endpoint="127.0.0.1:1"
        )
        assert training.run(main, startup, loss, 0, 1)["loss"] == training.alone()["loss"]

    def test_no_such_mode(self):
        config = fluid.DistributeTranspilerConfig()
        config.mode, config.collective_mode = "collective", "ring"
        with pytest.raises(ValueError, match="collective_mode must be one of .*local_sgd"):
            fluid.DistributeTranspiler(config).transpile(0, trainers=",".join(ENDS), current_endpoint=ENDS[0])

    def test_functions_of_layers(self):
        main = fluid.Program()
        with fluid.program_guard(main):
            x, made = fluid.data("x", [6, 2]), fluid.layers.collective
            shapes = [
                made._allreduce(x, reduce_type="max").shape,
                made._c_allreduce(x, reduce_type="min").shape,
                made._c_allgather(x, 3).shape,
                made._c_reducescatter(x, 3).shape,
            ]
            for one in (made._broadcast(x, 0), made._c_broadcast(x), made._c_sync_calc_stream(x)):
                assert one is x
            assert made._c_sync_comm_stream(x, 1) is x
            assert [list(s) for s in shapes] == [[6, 2], [6, 2], [18, 2], [2, 2]]
            assert types(main) == [
                "allreduce",
                "c_allreduce_min",
                "c_allgather",
                "c_reducescatter",
                "broadcast",
                "c_broadcast",
                "c_sync_calc_stream",
                "c_sync_comm_stream",
            ]
            with pytest.raises(ValueError, match="6 rows are not divisible by 4 ranks"):
                made._c_reducescatter(x, 4)
            with pytest.raises(TypeError, match="reduce_type must be one of"):
                made._allreduce(x, reduce_type="mean")
            with pytest.raises(TypeError, match="a Variable is needed"):
                made._c_reducescatter(3, 2)


def close(found, want):
    for name in want:
        if name != "loss":
            np.testing.assert_allclose(found[name], want[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(("rings", "optimizer"), [(1, "sgd"), (2, "momentum"), (2, "clip")])
def test_grad_all_reduce_is_one_process(two_apart, rings, optimizer):
    want = training.here(training.alone, optimizer)
    found = two_apart.run(training_on_rank, "grad_allreduce", rings, optimizer, [f"127.0.0.1:{p}" for p in free(2)])
    for one in found:
        close(one, want)
    np.testing.assert_allclose(np.mean([f["loss"] for f in found], 0), want["loss"], rtol=1e-5)


def test_local_sgd_is_the_mean_of_steps(two_apart):
    found = two_apart.run(training_on_rank, "local_sgd", 2, "sgd", [f"127.0.0.1:{p}" for p in free(2)])
    for rank, one in enumerate(found):
        want = training.here(training.means, rank, 2)
        close(one, want)
        np.testing.assert_allclose(one["loss"], want["loss"], rtol=1e-5)


def training_on_rank(*args):
    return training.here(training.collective_mode, *args)
