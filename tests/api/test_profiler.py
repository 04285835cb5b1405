"""paddle.fluid.profiler and paddle.utils.Profiler: counts, report and file."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import static
from paddle.fluid import profiler
from paddle.utils import profiler as own

HEAD = ["Event", "Calls", "Total", "Min.", "Max.", "Ave.", "Ratio."]


def table(text: str) -> dict[str, list[float]]:
    """The rows of a report, by event (without its thread)."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Event "))
    assert lines[start].split() == HEAD
    rows = [line.split() for line in lines[start + 1 :] if line]
    return {row[0].split("::")[-1]: [float(x) for x in row[1:]] for row in rows}


def work(times: int) -> None:
    x = paddle.ones([8, 8])
    x.stop_gradient = False
    for _ in range(times):
        paddle.matmul(x, x).sum().backward()


@pytest.mark.parametrize("key", [None, "calls", "total", "max", "min", "ave"])
def test_a_report(capsys, tmp_path, key):
    with profiler.profiler("CPU", key, str(tmp_path / "profile")):
        work(3)
        paddle.tanh(paddle.ones([2]))
    text = capsys.readouterr().out
    said = own._ORDERS["default" if key is None else key][0]
    assert f"Place: CPU\nTime unit: ms\nSorted by {said} in descending order" in text
    rows = table(text)
    assert rows["matmul_v2"][0] == rows["matmul_v2_grad"][0] == 3 and rows["tanh"][0] == 1
    for calls, total, least, most, average, ratio in rows.values():
        assert 0 < least <= average * 1.001 <= most * 1.002 and 0 < ratio <= 1
        assert abs(total - calls * average) <= 1e-4 * total
    assert abs(sum(row[5] for row in rows.values()) - 1) < 1e-3
    if key is not None:
        column = [row[["calls", "total", "min", "max", "ave"].index(key)] for row in rows.values()]
        assert column == sorted(column, reverse=True)
    assert (tmp_path / "profile").stat().st_size > 100


def test_inactive_profiler(capsys):
    assert not own.is_profiler_enabled()
    work(1)
    profiler.stop_profiler("total", "/nowhere")
    assert not capsys.readouterr().out
    profiler.start_profiler("CPU")
    assert own.is_profiler_enabled()
    profiler.start_profiler("no state at all")  # is active already
    work(2)
    profiler.reset_profiler()
    work(1)
    with pytest.raises(ValueError, match="sorted_key"):
        profiler.stop_profiler("time")
    profiler.stop_profiler(None, None)
    assert table(capsys.readouterr().out)["matmul_v2"][0] == 1
    for wrong in (("TPU",), ("CPU", "Everything")):
        with pytest.raises(ValueError):
            profiler.start_profiler(*wrong)
    assert not own.is_profiler_enabled()


def test_a_program_and_operators_of_a_loop(capsys):
    paddle.enable_static()
    try:
        main = static.Program()
        with static.program_guard(main):
            i = paddle.zeros([1], "int64")
            x = static.data("x", [4], "float32")
            found = static.nn.while_loop(lambda i, x: i < 5, lambda i, x: [i + 1, paddle.tanh(x)], [i, x])
        exe = static.Executor(paddle.CPUPlace())
        feed = {"x": np.ones([4], "float32")}
        with profiler.profiler("All", "total", None):
            for _ in range(2):
                exe.run(main, feed=feed, fetch_list=[found[1]])
    finally:
        paddle.disable_static()
    text = capsys.readouterr().out
    assert "Place: All" in text and "CPU Time (Ratio)" in text
    lines = text.splitlines()
    outer = next(line for line in lines if "::while " in line)
    inner = next(line for line in lines if "tanh" in line)
    assert outer.split()[1] == "2" and inner.split()[1] == "10"
    assert lines.index(outer) < lines.index(inner) and inner.startswith("  thread")


def test_results_are_the_same(capsys):
    x = paddle.to_tensor(np.random.RandomState(0).rand(16, 16).astype("float32"), stop_gradient=False)

    def run():
        y = paddle.nn.functional.softmax(paddle.matmul(x, x) * 2 + 1)
        (y * y).sum().backward()
        found = x.grad.copy() if hasattr(x.grad, "copy") else np.array(x.grad)
        x.clear_grad()
        return np.array(found)

    plain = run()
    with profiler.profiler("CPU", None, None):
        timed = run()
    capsys.readouterr()
    assert plain.tobytes() == timed.tobytes()


def fields(data: bytes) -> list[tuple[int, int | bytes]]:
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    at, found = 0, []
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
        else:
            n = varint()
            found.append((key >> 3, data[at : at + n]))
            at += n
    return found


def test_the_file(capsys, tmp_path):
    path = tmp_path / "profile"
    with profiler.profiler("CPU", "total", str(path)):
        work(2)
    capsys.readouterr()
    whole = fields(path.read_bytes())
    events = [dict(fields(value)) for number, value in whole if number == 1]
    assert [e[1] for e in events].count(b"matmul_v2") == 2
    last = {number: value for number, value in whole if number != 1}
    assert all(last[2] <= e[2] <= e[3] <= last[3] and e[8] == 0 for e in events)
    profiler.start_profiler("CPU")
    with pytest.raises(OSError):
        profiler.stop_profiler(None, str(tmp_path / "no" / "folder"))
    assert not own.is_profiler_enabled()


def test_batches(capsys):
    options = paddle.utils.ProfilerOptions({"state": "CPU", "batch_range": [1, 3], "sorted_key": "calls"})
    outside = paddle.utils.get_profiler()
    with paddle.utils.Profiler(options=options) as one:
        assert paddle.utils.get_profiler() is one
        for _ in range(5):
            work(1)
            one.record_step()
    assert paddle.utils.get_profiler() is outside
    text = capsys.readouterr().out
    assert table(text)["matmul_v2"][0] == 2 and text.count("Profiling Report") == 1
    with paddle.utils.Profiler(enabled=False) as none:
        work(1)
        none.record_step()
        none.reset()
    with pytest.warns(UserWarning, match="state must be"):
        paddle.utils.Profiler(options=options.with_state("x")).start()
    with pytest.raises(ValueError, match="no_such"):
        options["no_such"]
    assert options["timeline_path"] is None and not capsys.readouterr().out


def test_cuda_profiler():
    with pytest.raises(ValueError, match="kvp"), profiler.cuda_profiler("f", "text"):
        raise AssertionError
    if not paddle.is_compiled_with_cuda():
        with pytest.raises(RuntimeError, match="needs a GPU"), profiler.cuda_profiler("f"):
            raise AssertionError
