"""fluid.layers.io's ListenAndServ, Send and Recv, and generate_layer_fn, used by upstream's test of them."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle import _core
from paddle.distributed.port_files import port_file
from paddle.fluid.layers.io import BlockGuardServ, ListenAndServ, Recv, Send
from paddle.fluid.layers.layer_function_generator import generate_layer_fn

PORT = port_file(os.getpid())


@pytest.fixture(autouse=True)
def static():
    paddle.enable_static()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield
    _core.dist.complete_servers()
    paddle.disable_static()


def served(failures: list) -> threading.Thread:
    """A server that multiplies received values by ten."""
    main, scope = fluid.Program(), fluid.Scope()
    with fluid.program_guard(main):
        server = ListenAndServ("127.0.0.1:0", ["X"], optimizer_mode=False)
        with server.do():
            out = main.global_block().create_var(name="out", dtype="float32", shape=[2, 3])
            x = fluid.layers.data("X", [2, 3], append_batch_size=False)
            fluid.layers.ops._scale(x=x, scale=10.0, out=out)
            params, grads = server.get_params_and_grads()
    assert [v.name for v in params] == [v.name for v in grads] == ["X"]
    assert main.global_block().ops[-1].attr("Fanin") == 1

    def run():
        try:
            fluid.Executor(fluid.CPUPlace()).run(main, scope=scope)
        except Exception as e:  # set by the test
            failures.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_server_by_hand():
    failures: list = []
    assert not PORT.exists()
    thread = served(failures)
    end = time.monotonic() + 60
    while not PORT.exists() and thread.is_alive() and time.monotonic() < end:
        time.sleep(0.01)
    assert not failures and thread.is_alive()
    at = f"127.0.0.1:{int(PORT.read_text())}"
    x = fluid.layers.data("X", [2, 3], append_batch_size=False)
    out = fluid.default_main_program().global_block().create_var(name="out", dtype="float32", shape=[2, 3])
    Send(at, [x])
    got = Recv(at, [out])
    assert got == [out]
    ops = fluid.default_main_program().global_block().ops
    assert [op.type for op in ops] == ["send", "send_barrier", "recv", "fetch_barrier"]
    exe = fluid.Executor(fluid.CPUPlace())
    for step in range(3):
        given = np.full([2, 3], 2.5 + step, "float32")
        np.testing.assert_allclose(exe.run(feed={"X": given}, fetch_list=got)[0], given * 10)
    _core.dist.complete_servers()
    thread.join(60)
    assert not thread.is_alive() and not failures
    assert not PORT.exists()


def test_an_optimizer_s_parameters_and_gradients():
    main = fluid.default_main_program()
    w = fluid.layers.create_parameter([2], "float32", name="w")
    for name in ("w@GRAD", "rate"):
        main.global_block().create_var(name=name, shape=[2], dtype="float32")
    server = ListenAndServ("127.0.0.1:0", ["w@GRAD"], fan_in=2)
    with server.do():
        inputs = {"Param": w, "Grad": "w@GRAD", "LearningRate": "rate"}
        main.current_block().append_op(type="sgd", inputs=inputs, outputs={"ParamOut": w})
        assert server.get_params_and_grads() == (["w"], ["w@GRAD"])
        assert server.parent_block().idx == 0
    (op,) = main.global_block().ops
    assert (op.type, op.attr("Fanin"), op.input("X"), op.attr("distributed_mode")) == (
        "listen_and_serv",
        2,
        ["w@GRAD"],
        0,
    )


def test_what_is_wrong_is_refused():
    x = fluid.layers.data("X", [2, 3])
    with pytest.raises(TypeError, match="Send takes a list"):
        Send("127.0.0.1:1", x)
    with pytest.raises(ValueError, match="Recv: an endpoint is needed for each of 1 variables"):
        Recv("127.0.0.1:1,127.0.0.1:2", [x])
    with pytest.raises(TypeError, match="takes a ListenAndServ, got str"):
        BlockGuardServ("server")
    with pytest.raises(ValueError, match="listen_and_serv"):
        generate_layer_fn("listen_and_serv")
    with pytest.raises(ValueError, match="takes Variables"):
        generate_layer_fn("scale")(3.0)
    with pytest.raises(ValueError, match="of one data type"):
        generate_layer_fn("elementwise_add")(x, fluid.layers.data("i", [2, 3], dtype="int64"))


def test_an_operator_as_a_function():
    x, y = fluid.data("x", [2, 2]), fluid.data("y", [2])
    divided = fluid.layers.ops._elementwise_div(x, y, axis=0, act="relu")
    joined = generate_layer_fn("concat")(x=[x, x], axis=1)
    given = {"x": np.array([[2, -4], [9, 3]], "float32"), "y": np.array([2, 3], "float32")}
    got = fluid.Executor(fluid.CPUPlace()).run(feed=given, fetch_list=[divided, joined])
    assert got[0].tolist() == [[1, 0], [3, 1]]
    assert got[1].tolist() == [[2, -4, 2, -4], [9, 3, 9, 3]]
