"""The answers of the role makers over MPI on every rank; started by `mpirun`."""

from __future__ import annotations

import json
import sys

import numpy as np
from paddle.fluid.incubate.fleet.base.role_maker import MPISymetricRoleMaker


def main() -> None:
    role = MPISymetricRoleMaker()
    role.generate_role()
    total = np.zeros(2)
    if role.is_worker():
        role.all_reduce_worker(np.array([1.0, role.worker_index()]), total)
        role.barrier_worker()
    role.barrier_all()
    known = {
        "worker": role.is_worker(),
        "server": role.is_server(),
        "first": role.is_first_worker(),
        "workers": role.worker_num(),
        "servers": len(role.get_pserver_endpoints()),
        "total": total.tolist(),
        "index": role.worker_index() if role.is_worker() else role.server_index(),
    }
    with open(f"{sys.argv[1]}/{role._get_rank()}.json", "w") as f:
        json.dump(known, f)
    role._finalize()


main()
