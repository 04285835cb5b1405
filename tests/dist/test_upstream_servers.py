"""2.0.2's own trainer files as jobs of two servers and two trainers: synchronous, asynchronous, and DC-ASGD.

As test_upstream_ranks.py: OAR_UPSTREAM_TESTS names the folder of 2.0.2's tests. (dist_simnet_bow is not in 2.0.2.)
"""

from __future__ import annotations

import io
import os
import pickle
import random
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from launching import clean_environment
from test_parameter_server import endpoints

HERE = Path(__file__).resolve().parent
UPSTREAM = os.environ.get("OAR_UPSTREAM_TESTS", "")
FILES = ["dist_ctr", "dist_mnist", "dist_word2vec", "dist_text_classification"]
MODES = {"sync": ["--sync_mode"], "async": [], "dc": ["--dc_asgd"]}
LIMIT = 200

pytestmark = pytest.mark.slow


def archive(path: Path, files: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as out:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            out.addfile(info, io.BytesIO(text.encode()))


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Synthetic data sets in upstream's formats."""
    folder, draw = tmp_path_factory.mktemp("data"), random.Random(3)

    def click() -> str:
        deep = [draw.randrange(1000) for _ in range(draw.randint(1, 9))]
        wide = [draw.randrange(500) for _ in range(draw.randint(1, 9))]
        ids = " ".join(map(str, deep))
        return f"{ids}\t{' '.join(f'{w}:1' for w in wide)}\t{sum(deep) % 2}\n"

    clicks = {f"avazu_ctr_data/{name}.txt": "".join(click() for _ in range(200)) for name in ("train", "test", "infer")}
    clicks["avazu_ctr_data/data.meta.txt"] = "dnn_input_dim:1000\nlr_input_dim:500\n"
    archive(folder / "avazu_ctr_data" / "avazu_ctr_data.tgz", clicks)
    words = [f"word{k}" for k in range(300)]
    texts = {
        f"{part}/{kind}/{k}.txt": " ".join(draw.choices(words, k=draw.randint(5, 30)))
        for part in ("train", "test")
        for kind in ("pos", "neg")
        for k in range(30)
    }
    archive(folder / "text_classification" / "text_classification.tar.gz", texts)
    (folder / "text_classification" / "imdb.vocab").write_text("\n".join(words))
    return folder


def said(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]


def run(name: str, folder: Path, data: Path, flags: list[str]) -> list[list[float]]:
    """The losses of both trainers."""
    for path in Path(UPSTREAM).iterdir():
        (folder / path.name).symlink_to(path)
    env = clean_environment(
        PYTHONPATH=os.pathsep.join(map(str, [HERE / "cpu_ranks", HERE.parents[1] / "python"])),
        OMP_NUM_THREADS="1",
        OAR_INIT_TIMEOUT="60",
        CPU_NUM="1",
        OAR_TEST_DATA=str(data),
    )
    places = endpoints(2)
    all_of: dict[str, subprocess.Popen] = {}
    common = ["--endpoints", places, "--trainers", "2", "--update_method", "pserver", *flags]
    try:
        for role in ("pserver", "trainer"):
            for i, place in enumerate(places.split(",")):
                number = i if role == "trainer" else 0
                command = [sys.executable, f"{name}.py", "--role", role, "--current_endpoint", place]
                with (folder / f"{role}{i}.log").open("w") as log:
                    all_of[f"{role}{i}"] = subprocess.Popen(
                        [*command, "--trainer_id", str(number), *common],
                        cwd=folder,
                        env=env,
                        stdout=subprocess.PIPE,
                        stderr=log,
                    )
        losses = []
        for tag, process in all_of.items():
            if tag.startswith("trainer"):
                out, _ = process.communicate(timeout=LIMIT)
                assert process.returncode == 0, said(folder / f"{tag}.log")
                losses.append([float(np.ravel(v)[0]) for v in pickle.loads(out)])
        for tag, process in all_of.items():
            assert process.wait(LIMIT) == 0, said(folder / f"{tag}.log")
        return losses
    finally:
        for process in all_of.values():
            if process.poll() is None:
                process.kill()
                process.wait()


# DC-ASGD multiplies gradients; as in 2.0.2 the operator does not support SelectedRows
@pytest.mark.parametrize(
    ("name", "mode"),
    [(n, m) for n in FILES for m in MODES if m != "dc" or n in ("dist_mnist", "dist_text_classification")],
)
def test_a_job_of_servers(name, mode, tmp_path, data):
    if not UPSTREAM:
        pytest.skip("OAR_UPSTREAM_TESTS does not name the folder of 2.0.2's tests")
    losses = run(name, tmp_path, data, MODES[mode])
    assert all(len(one) == 5 and np.isfinite(one).all() for one in losses), losses
    assert all(len(set(one)) > 1 for one in losses), losses
