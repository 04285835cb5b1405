"""The collective operators themselves, eagerly and in a Program, on three processes."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.distributed as dist
import pytest
from paddle import _core, static

N = 3
REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}
OLD_NUMBERS = {"sum": 0, "prod": 1, "max": 2, "min": 3}


def value(rank: int) -> np.ndarray:
    return np.random.RandomState(rank).randint(1, 4, size=(N, 2)).astype("float32")


def calls(me: int) -> dict[str, tuple[str, dict]]:
    """Operators of one X and one Out, with their attributes."""
    found: dict[str, tuple[str, dict]] = {}
    for kind in REDUCTIONS:
        found[f"c_allreduce_{kind}"] = (f"c_allreduce_{kind}", {"use_calc_stream": True})
        found[f"c_reduce_{kind}"] = (f"c_reduce_{kind}", {"root_id": 1, "use_calc_stream": True})
        found[f"allreduce {kind}"] = ("allreduce", {"reduce_type": OLD_NUMBERS[kind]})
    found["c_broadcast"] = ("c_broadcast", {"root": 2, "use_calc_stream": True})
    found["broadcast"] = ("broadcast", {"root": 1})
    found["c_allgather"] = ("c_allgather", {"nranks": N, "use_calc_stream": True})
    found["c_reducescatter"] = ("c_reducescatter", {"nranks": N, "use_calc_stream": True})
    found["c_scatter"] = ("c_scatter", {"nranks": N, "root": 1, "use_calc_stream": True})
    found["barrier"] = ("barrier", {})
    return found


def wanted(me: int) -> dict[str, np.ndarray]:
    mine, everything = value(me), np.stack([value(r) for r in range(N)])
    found = {
        "c_broadcast": value(2),
        "broadcast": value(1),
        "c_allgather": everything.reshape(N * N, 2),
        "c_reducescatter": everything.sum(0)[me : me + 1],
        "c_scatter": value(1)[me : me + 1],
        "barrier": mine,
    }
    for kind, combine in REDUCTIONS.items():
        found[f"c_allreduce_{kind}"] = found[f"allreduce {kind}"] = combine(everything, 0)
        found[f"c_reduce_{kind}"] = combine(everything, 0) if me == 1 else mine
    return found


def eagerly():
    me = dist.get_rank()
    return {k: getattr(_core.ops, op)(paddle.to_tensor(value(me)), **a).numpy() for k, (op, a) in calls(me).items()}


def in_a_program():
    me = dist.get_rank()
    paddle.enable_static()
    try:
        main = static.Program()
        with static.program_guard(main, static.Program()), static.scope_guard(static.Scope()):
            x = static.data("x", [N, 2], "float32")
            outs = []
            for k, (op, attrs) in calls(me).items():
                outs.append(main.global_block().create_var(name=k.replace(" ", "_"), dtype="float32"))
                copy = x * 1.0  # Out is computed at the place of X
                main.global_block().append_op(type=op, inputs={"X": copy}, outputs={"Out": outs[-1]}, attrs=attrs)
            found = static.Executor(paddle.CPUPlace()).run(main, feed={"x": value(me)}, fetch_list=outs)
    finally:
        paddle.disable_static()
    return dict(zip(calls(me), found, strict=True))


@pytest.mark.operators(
    *(f"c_{how}_{kind}" for how in ("allreduce", "reduce") for kind in REDUCTIONS),
    "allreduce",
    "c_broadcast",
    "broadcast",
    "c_allgather",
    "c_reducescatter",
    "c_scatter",
    "barrier",
)
@pytest.mark.parametrize("how", [eagerly, in_a_program], ids=["eager", "static"])
def test_values(three, how):
    for rank, found in enumerate(three.run(how)):
        want = wanted(rank)
        assert set(found) == set(want)
        for k, array in want.items():
            np.testing.assert_array_equal(found[k], array, err_msg=f"{k} on rank {rank}")
            assert found[k].dtype == array.dtype


def around():
    """Each rank sends to the next and receives from the previous one; the last receives first."""
    me = dist.get_rank()
    x = paddle.to_tensor(value(me))

    def send():
        _core.ops.send_v2(x, peer=(me + 1) % N, use_calc_stream=True)

    def receive():
        return _core.ops.recv_v2(peer=(me - 1) % N, out_shape=[-1, 2], dtype=5, use_calc_stream=True).numpy()

    if me == N - 1:
        found = receive()
        send()
        return found
    send()
    return receive()


@pytest.mark.operators("send_v2", "recv_v2")
def test_sending(three):
    for rank, found in enumerate(three.run(around)):
        np.testing.assert_array_equal(found, value((rank - 1) % N))


def alone():
    """A ring of this process, in addition to the world."""
    _core.ops.c_comm_init_all(ring_id=40)
    x = value(dist.get_rank())
    return x, _core.ops.c_allreduce_sum(paddle.to_tensor(x), ring_id=40, use_calc_stream=True).numpy()


@pytest.mark.operators("c_comm_init_all")
def test_a_ring_of_one_process(three):
    for x, found in three.run(alone):
        np.testing.assert_array_equal(found, x)


def gathered_gradient():
    """Rank r weighs what it gathered with r + 1, so every part's gradient is 1 + 2 + 3."""
    x = paddle.to_tensor(value(dist.get_rank()), stop_gradient=False)
    y = _core.ops.c_allgather(x, nranks=N, use_calc_stream=True)
    (y * float(dist.get_rank() + 1)).sum().backward()
    return x.grad


@pytest.mark.operators("c_allgather")
def test_gradient_of_gathering(three):
    for found in three.run(gathered_gradient):
        np.testing.assert_array_equal(found, np.full((N, 2), 6, "float32"))


def rows_of(rank: int) -> tuple[list[int], np.ndarray]:
    """A rank's sparse rows: some shared with other ranks, one repeated; none on the last rank."""
    rows = [[4, 1, 4], [1, 0], []][rank]
    return rows, np.random.RandomState(rank).normal(size=(len(rows), 2)).astype("float32")


def summed_rows(ring: int) -> tuple[list[int], int, np.ndarray]:
    paddle.enable_static()
    try:
        program, scope = static.Program(), static.Scope()
        block, (rows, values) = program.global_block(), rows_of(dist.get_rank())
        block.create_var(name="g", type=_core.VarDesc.VarType.SELECTED_ROWS, persistable=True)
        block.append_op(type="c_allreduce_sum", inputs={"X": ["g"]}, outputs={"Out": ["g"]}, attrs={"ring_id": ring})
        held = scope.var("g").get_selected_rows()
        held.set_rows(rows)
        held.set_height(6)
        held.get_tensor().set(values, paddle.CPUPlace())
        static.Executor(paddle.CPUPlace()).run(program, scope=scope)
        held = scope.find_var("g").get_selected_rows()
        return list(held.rows()), held.height(), np.array(held.get_tensor())
    finally:
        paddle.disable_static()


def test_rows_are_summed(three):
    want = np.zeros((6, 2), "float32")
    for rank in range(N):
        rows, values = rows_of(rank)
        np.add.at(want, rows, values)
    for rows, height, values in three.run(summed_rows, 0):
        assert (rows, height) == ([0, 1, 4], 6)
        np.testing.assert_allclose(values, want[[0, 1, 4]], rtol=1e-6)
