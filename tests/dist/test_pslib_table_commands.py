"""Commands on Downpour's tables: save, load, shrink and clear."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from launching import clean_environment
from paddle.distributed.ps.pslib import table_commands

SCRIPT = str(Path(__file__).with_name("pslib_table_commands.py"))


def job(folder: Path, servers: int, part: str) -> tuple[dict, str]:
    sizes = [f"--server_num={servers}", "--worker_num=1"]
    command = [sys.executable, "-m", "paddle.distributed.launch", *sizes, SCRIPT, str(folder), part]
    done = subprocess.run(
        command, cwd=folder, env=clean_environment(OAR_TIMEOUT="60"), capture_output=True, text=True, timeout=300
    )
    logs = "\n".join(p.read_text()[-3000:] for p in sorted((folder / "log").glob("*")))
    assert done.returncode == 0, done.stderr + logs
    return json.loads((folder / part).read_text()), logs + done.stdout


def rows(folder: Path, value: str) -> dict[int, np.ndarray]:
    """Values of a saved sparse table by row."""
    found = {}
    for part in sorted(folder.glob("part-*")):
        program, scope = fluid.Program(), fluid.Scope()
        kind = fluid.core.VarDesc.VarType.SELECTED_ROWS
        var = program.global_block().create_var(name="v", type=kind, dtype="float32", persistable=True)
        attrs = {"file_path": str(part / value)}
        program.global_block().append_op(type="load", inputs={}, outputs={"Out": var}, attrs=attrs)
        fluid.Executor(fluid.CPUPlace()).run(program, scope=scope)
        held = scope.find_var("v").get_selected_rows()
        found |= dict(zip(held.rows(), np.array(held.get_tensor()), strict=True))
    return found


@pytest.fixture
def static():
    paddle.enable_static()
    yield
    paddle.disable_static()


def test_a_job_keeps_its_tables(tmp_path, static):
    found, said = job(tmp_path, 2, "first")
    table = {
        name: tmp_path / name / "000"
        for name in ("saved", "worth", "changed", "unchanged", "day", "one", "listed", "shrunk", "cleared")
    }
    assert [p.name for p in sorted(table["saved"].iterdir())] == ["part-000-00000", "part-001-00000"]
    assert sorted(p.name for p in table["one"].iterdir()) == ["part-mine-000-00000", "part-mine-001-00000"]
    show, click, delta = (rows(table["saved"], name) for name in ("Show", "Click", "Delta"))
    score = {row: ((show[row] - click[row]) * 0.1 + click[row])[0] for row in show}
    assert len(show) > 30
    np.testing.assert_allclose([delta[row][0] for row in show], list(score.values()), rtol=1e-5)
    good = {row for row, s in score.items() if s >= 1.5}
    assert 0 < len(good) < len(show)
    assert set(rows(table["worth"], "Show")) == set(rows(table["changed"], "Show")) == good
    assert not rows(table["unchanged"], "Show")
    assert set(rows(table["day"], "Show")) == set(show) == set(rows(table["one"], "Show"))
    assert {v[0] for v in rows(table["day"], "Unseen").values()} == {0}
    assert {v[0] for v in rows(table["one"], "Unseen").values()} == {1}
    assert set(rows(table["listed"], "Show")) == {3, 5} & set(show)
    # includes rows with as many shows as the last one of the fraction
    often = sorted((v[0] for v in show.values()), reverse=True)[math.ceil(len(show) * 0.2) - 1]
    cached = rows(tmp_path / "cache" / "000_cache", "Show")
    assert found["cached"] == len(cached) and set(cached) == {row for row in show if show[row][0] >= often}
    whole = sum(s >= 2 for s in score.values())
    assert f"tableid: 0, feasign size: {len(show)}, mf size: {whole}\n" in said
    # the following results are of the saved rows and parameters
    assert found["loss"] == found["reverted"] == found["loaded"] == found["tables"]
    now = rows(table["shrunk"], "Show")
    after = {row: 0.5 * ((n - c) * 0.1 + c)[0] for row, n, c in _more(show, click)}
    assert set(now) == {row for row, s in after.items() if s >= 1.2} != set(after)
    assert not rows(table["cleared"], "Show")
    given = {
        name: np.frombuffer((tmp_path / "given" / "001" / name).read_bytes()[-4:], "float32")[0] for name in ("w", "b")
    }
    assert given == {"w": 0.25, "b": 0.5}
    missing, dense, mode, number = found["errors"]
    assert "could not load: FileNotFoundError" in missing and "nothing/000 has no part-* of sparse table 0" in missing
    assert "could not clear: ValueError: there is no sparse table 1, only 0" in dense
    assert "mode must be 0 (all), 1 (what changed), 2 (above base_threshold) or 3 (a day), got 7" in mode
    assert "there is no table 9, only 0, 1" in number
    # With another number of servers.
    second, _ = job(tmp_path, 3, "second")
    assert second["loss"] == pytest.approx(found["loss"], rel=1e-5)


def _more(show, click):
    """Shows and clicks after the step between save and shrink."""
    import pslib_training as model

    show, click = dict(show), dict(click)
    for ids, more, clicked in model.samples(0, 3):
        for row in (*ids, *more):
            show[row] = show.get(row, 0) + np.ones(1, "float32")
            click[row] = click.get(row, 0) + np.full(1, clicked, "float32")
    return [(row, show[row], click[row]) for row in show]


def test_shrinking_sums():
    sums = {
        "a.batch_size": np.full(4, 10, "float32"),
        "a.batch_sum": np.arange(4, dtype="float32"),
        "a.batch_square_sum": np.ones(4, "float32"),
    }
    after = table_commands.decayed(sums, 0.5, 2)
    np.testing.assert_allclose(after["a.batch_sum"], [10 * math.log(0.5), 1, 2 + 10 * math.log(0.5), 3], rtol=1e-6)
    assert after["a.batch_size"] is sums["a.batch_size"] and sums["a.batch_sum"][0] == 0
