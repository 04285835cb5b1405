"""2.0.2's own tests of several GPUs, each rank on a CPU place: those of collectives, nccl2 and data parallelism.

Their sources are not part of the repository: OAR_UPSTREAM_TESTS names the folder
``python/paddle/fluid/tests/unittests`` of 2.0.2's sources. Failures and their reasons are in tests/conformance_dist.md.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launching import clean_environment

HERE = Path(__file__).resolve().parent
UPSTREAM = os.environ.get("OAR_UPSTREAM_TESTS", "")
PASS = """
test_allreduce test_broadcast test_c_comm_init_all_op test_collective_reduce test_collective_scatter
test_collective_sendrecv test_collective_split_col_linear test_collective_split_embedding
test_collective_split_embedding_none_divisible test_collective_split_row_linear test_dist_mnist_backward_deps
test_dist_mnist_fleet_save test_dist_mnist_fleetapi test_dist_mnist_hallreduce test_dist_mnist_lars
test_dist_mnist_multi_comm test_dist_mnist_pg test_dist_mnist_ring_allreduce test_dist_mnist_with_program
test_gen_nccl_id_op test_parallel_dygraph_mnist test_parallel_dygraph_sparse_embedding
test_parallel_dygraph_sparse_embedding_over_height test_parallel_dygraph_transformer
test_parallel_dygraph_unused_variables test_fleet_graph_executor test_reducescatter test_reducescatter_api
test_dist_allreduce_op test_dist_mnist_gradient_merge test_dist_mnist_fp16_allreduce test_dgc_op test_dgc_momentum_op
test_dgc_optimizer test_imperative_group test_dist_sharding_save test_pipeline test_dist_fleet_ps_gpu_ctr
""".split()

pytestmark = pytest.mark.slow


def run(name: str, folder: Path, limit: float) -> tuple[int, str]:
    """The exit status and output of a file, run in a writable folder with its neighbours."""
    for path in Path(UPSTREAM).iterdir():
        (folder / path.name).symlink_to(path)
    paths = [HERE / "cpu_ranks", HERE.parents[1] / "python"]
    env = clean_environment(PYTHONPATH=os.pathsep.join(map(str, paths)), OMP_NUM_THREADS="1", OAR_INIT_TIMEOUT="60")
    # Some start `python`.
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", "")])
    process = subprocess.Popen(
        [sys.executable, f"{name}.py"],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    try:
        out, _ = process.communicate(timeout=limit)
        return process.returncode, out.decode(errors="replace")
    finally:
        # all its ranks are ended in any case
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


@pytest.mark.parametrize("name", PASS)
def test_on_cpu_ranks(name, tmp_path):
    if not UPSTREAM:
        pytest.skip("OAR_UPSTREAM_TESTS does not name the folder of 2.0.2's tests")
    status, out = run(name, tmp_path, 300)
    assert status == 0 and "\nOK" in out, out[-4000:]
