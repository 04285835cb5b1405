"""Writes the tables of flags and environment variables in docs/guides/flags.md, from the sources.

    python docs/_ext/flags_table.py            rewrites the page
    python docs/_ext/flags_table.py --check    fails where the page or the descriptions are out of date

Defaults come from `_DEFAULTS` in paddle/_basics/flags.py; names from string literals in rust/ and python/. A name that
the sources read and this file does not describe, or describes and they do not read, is an error.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guides" / "flags.md"
BEGIN, END = "<!-- begin: written by docs/_ext/flags_table.py -->", "<!-- end -->"

# FLAGS_* with an effect. The others are accepted, kept, and have none.
EFFECTS = {
    "FLAGS_check_nan_inf": "checks every operator's outputs for NaN and infinities; an error names the operator",
    "FLAGS_selected_gpus": "the GPU of this process; the launcher sets it",
    "FLAGS_cudnn_deterministic": "convolutions by algorithms of cuDNN whose sums have a fixed order, and no others",
    "FLAGS_cudnn_exhaustive_search": "algorithms of cuDNN are chosen by their measured times",
    "FLAGS_conv_workspace_size_limit": "megabytes of memory that an algorithm of cuDNN may use",
    "FLAGS_rpc_deadline": "milliseconds that a trainer waits for a server in one attempt",
    "FLAGS_rpc_retry_times": "further attempts after the first",
    "FLAGS_communicator_max_merge_var_num": "gradients that the communicator merges into one message",
    "FLAGS_communicator_send_queue_size": "gradients in the communicator's queue before a step waits",
    "FLAGS_communicator_independent_recv_thread": "parameters are received by a thread of their own",
    "FLAGS_communicator_min_send_grad_num_before_recv": "gradients sent before parameters are received again",
    "FLAGS_communicator_send_wait_times": "times that the communicator waits for a further gradient to merge",
    "FLAGS_communicator_merge_sparse_grad": "rows of sparse gradients are merged before they are sent",
    "FLAGS_communicator_max_staleness": "Oar's: steps that a trainer may be ahead of its exchanges; 0: no bound",
    "FLAGS_compat": "Oar's: the release whose arithmetic is computed where 2.0 changed it: `1.8` or `2.0`",
    "FLAGS_conv_winograd": "Oar's: 3 x 3 convolutions by Winograd's transforms where that is faster",
    "FLAGS_amx_products": "Oar's: large float32 products on the matrix unit (AMX)",
    "FLAGS_cpu_amp": "Oar's: type of mixed precision on the CPU, `float16` or `bfloat16`; empty: as in Paddle",
    "FLAGS_ps_state_folder": "Oar's: folder in which parameter servers keep their state; empty: none",
    "FLAGS_ps_checkpoint_folder": "Oar's: folder of a server's checkpoint_notify; empty: its working folder",
    "FLAGS_ps_log": "Oar's: log every update between two snapshots",
    "FLAGS_ps_snapshot_steps": "Oar's: steps between two snapshots",
    "FLAGS_ps_log_megabytes": "Oar's: megabytes of log between two snapshots",
    "FLAGS_ps_log_fsync": "Oar's: an answer waits for the disk",
}

# Environment variables: group, then name and meaning.
VARIABLES = {
    "The engine": {
        "OMP_NUM_THREADS": "threads of kernels (default: the cores of the affinity mask and the cgroup's quota)",
        "CPU_NUM": "places of `fluid.cpu_places()` (default: the cores)",
        "OAR_SIMD": "highest instruction set: `baseline`, `avx2`, `avx512`, `amx` (default: the processor's)",
        "OAR_JIT_STRICT": "`1`: to_static raises for code that it cannot translate (default: a warning)",
        "OAR_CUDA_RECIPES": "`0`: all launches on a CUDA device go through Python (default: known ones are replayed)",
        "OAR_CUDA_CUDNN": "`0`: convolutions on a CUDA device do not use cuDNN (default: where it is installed)",
        "OAR_CUDA_GRAPHS": "`0`: no CUDA graphs, of static Programs and of recurrent networks",
        "OAR_PLAN_PASSES": "passes over compiled Programs: `none`, `all`, or names with commas (default: `all`)",
        "OAR_CACHE": "folder of downloads (default: `~/.cache/paddle`)",
        "PADDLE_HOME": "the same, where OAR_CACHE is not set",
        "PADDLE_MIRROR": "address or folder with the same paths as the servers of downloads",
        "PADDLE_INF_NAN_SKIP_OP": "operator types that FLAGS_check_nan_inf passes over, with commas",
        "PADDLE_INF_NAN_SKIP_ROLE": "roles that it passes over: `forward`, `backward`, `optimize`, ...",
        "PADDLE_INF_NAN_SKIP_VAR": "`operator:variable` pairs that it passes over",
    },
    "A rank": {
        "PADDLE_TRAINER_ID": "number of this trainer, from 0",
        "PADDLE_TRAINERS_NUM": "number of trainers",
        "PADDLE_TRAINER_ENDPOINTS": "`ip:port` of all trainers, with commas",
        "PADDLE_CURRENT_ENDPOINT": "`ip:port` of this process",
        "PADDLE_MASTER": "`host:port` of the rendezvous store",
        "OAR_JOB_NAME": "name of the job; ranks of another job are refused",
        "OAR_JOB_TOKEN": "secret of the job, hexadecimal; needed on several hosts or for several users",
        "OAR_BACKEND": "transport of collectives: `mpi`, `nccl`; default: shared memory within a host, TCP between",
        "OAR_SHARED_MEMORY": "`0`: TCP within a host, too",
        "OAR_INIT_TIMEOUT": "seconds until all ranks must have met (default 300)",
        "OAR_TIMEOUT": "seconds that one collective may take",
        "OAR_HEARTBEAT_LIMIT": "seconds of silence after which a process is lost",
    },
    "Parameter servers": {
        "TRAINING_ROLE": "`TRAINER`, `PSERVER` or `HETER_TRAINER`",
        "PADDLE_TRAINING_ROLE": "the same, under PaddleCloud's name",
        "PADDLE_PSERVERS_IP_PORT_LIST": "`ip:port` of all servers",
        "PADDLE_PSERVER_ID": "number of this server (default: the place of its endpoint in the list)",
        "PADDLE_HETER_TRAINER_IP_PORT_LIST": "`ip:port` of heterogeneous trainers",
        "PADDLE_PORT": "port of this server",
        "POD_IP": "address of this node",
        "OAR_PS_LOST_TRAINER": "when a trainer is lost: `end` (default), `continue`, or `wait` for its restart",
        "OAR_PS_RESTARTS": "restarts of one process by the launcher (default 10)",
        "OAR_PS_BACKGROUND": "`1`: asynchronous trainers exchange in the background",
        "PADDLE_WITH_GLOO": "role makers meet through Gloo's interface: `0` no, `1` trainers, `2` all",
        "PADDLE_GLOO_RENDEZVOUS": "how: `1` HDFS, `2` a folder, `3` HTTP",
        "PADDLE_GLOO_HTTP_ENDPOINT": "`ip:port` of that HTTP server",
        "PADDLE_GLOO_FS_PATH": "that folder",
        "PADDLE_XPU_ENDPOINTS": "endpoints of heterogeneous workers for role makers of 1.x",
    },
    "The launcher, besides its flags": {
        "FLAGS_START_PORT": "first port of a node's processes, as `--started_port`",
        "MASTER_ADDR": "host of the first launcher",
        "MASTER_PORT": "its port (default 6070; under SLURM and MPI derived from the job's number)",
        "NNODES": "launchers, with NODE_RANK or JOB_COMPLETION_INDEX",
        "NODE_RANK": "number of this launcher",
        "WORLD_SIZE": "launchers, with RANK",
        "RANK": "number of this launcher",
        "JOB_COMPLETION_INDEX": "number of this pod of an indexed Kubernetes Job",
        "PADDLE_NNODES": "launchers of a PaddleJob, with PADDLE_MASTER",
        "PADDLE_NODE_RANK": "number of this launcher of a PaddleJob",
        "PADDLE_RANK": "the same",
        "PADDLE_JOB_ID": "name of the job",
        "PADDLE_TRAINERS": "PaddleCloud: addresses of all nodes",
        "TRAINER_PORTS_NUM": "PaddleCloud: processes of each node",
        "DISTRIBUTED_TRAINER_ENDPOINTS": "PaddleCloud: endpoints of all processes",
        "SYS_JOB_ID": "PaddleCloud: name of the job",
        "CUDA_VISIBLE_DEVICES": "GPUs that a process may use; empty: train on CPUs",
    },
    "Automatic checkpoints (`fluid.incubate.checkpoint`)": {
        "PADDLE_RUNNING_ENV": "`PADDLE_EDL_AUTO_CHECKPOINT` turns them on",
        "PADDLE_EDL_HDFS_CHECKPOINT_PATH": "folder of checkpoints",
        "PADDLE_EDL_HDFS_HOME": "Hadoop's installation; without it the folder is local",
        "PADDLE_EDL_HDFS_NAME": "Hadoop's file system",
        "PADDLE_EDL_HDFS_UGI": "Hadoop's user",
        "PADDLE_EDL_SAVE_CHECKPOINT_INTER": "seconds between two checkpoints (default 900)",
        "PADDLE_EDL_FS_CACHE": "local folder for files on their way",
        "PADDLE_EDL_ONLY_FOR_CE_TEST": "for upstream's tests",
        "PADDLE_RUNNING_PLATFORM": "`PADDLE_CLOUD`",
    },
}

# Values, names of tests and a variable of the build, not variables of the package.
NOT_VARIABLES = {"OAR_COMMIT", "PADDLE_EDL_AUTO_CHECKPOINT", "PADDLE_CLOUD", "OAR_FUZZ_RUNS", "OAR_FAULT_SEEDS"}
LITERAL = re.compile(r"[\"'](?:FLAGS_[A-Za-z0-9_]*[a-z0-9A-Z]|(?:OAR|PADDLE)_[A-Z0-9_]*[A-Z0-9])[\"']")


def defaults() -> dict[str, object]:
    """FLAGS_* and their defaults, in the order of the source."""
    for file in (ROOT / "python/paddle").glob("_*/flags.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
            if any(getattr(t, "id", "") == "_DEFAULTS" for t in targets):
                return ast.literal_eval(node.value)
    raise SystemExit("flags_table: there is no _DEFAULTS in python/paddle/_*/flags.py")


def read_names() -> set[str]:
    """OAR_* and PADDLE_* names in string literals of the sources, without tests."""
    found: set[str] = set()
    for folder, suffix in (("rust", "*.rs"), ("python/paddle", "*.py")):
        for file in (ROOT / folder).rglob(suffix):
            parts = file.relative_to(ROOT).parts
            if {"tests", "benches", "fuzz", "examples", "target"} & set(parts) or file.stem.startswith("tests"):
                continue
            found |= {m.strip("\"'") for m in LITERAL.findall(file.read_text())}
    return {n for n in found if not n.startswith("FLAGS_")} - NOT_VARIABLES


def problems() -> list[str]:
    """Names without a description, and descriptions without a name."""
    flags, described = defaults(), {n for group in VARIABLES.values() for n in group}
    found = [f"{n} has an effect but no default" for n in EFFECTS if n not in flags]
    names = read_names()
    found += [f"{n} is read and not described" for n in sorted(names - described)]
    ours = {n for n in described if n.startswith(("OAR_", "PADDLE_"))}
    return found + [f"{n} is described and not read" for n in sorted(ours - names)]


def text() -> str:
    """The generated part of the page."""
    flags = defaults()
    lines = ["## Flags with an effect", "", "| flag | default | what it sets |", "|---|---|---|"]
    lines += [f"| `{n}` | `{flags[n]!r}` | {about} |" for n, about in EFFECTS.items()]
    lines += [
        "",
        "## Flags without one",
        "",
        "Accepted and kept, so that scripts of Paddle run; the engine does not read them:",
        "",
    ]
    lines += [", ".join(f"`{n}`" for n in flags if n not in EFFECTS) + ".", ""]
    for group, names in VARIABLES.items():
        lines += [f"## {group}", "", "| variable | what it sets |", "|---|---|"]
        lines += [f"| `{n}` | {about} |" for n, about in names.items()] + [""]
    return "\n".join(lines)


def with_tables(page: str) -> str:
    """The page with its generated part replaced."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n\n" + text() + "\n" + END + rest.split(END, 1)[1]


def main(arguments: list[str]) -> int:
    wrong, page = problems(), PAGE.read_text()
    if arguments == ["--check"]:
        if page != with_tables(page):
            wrong.append("docs/guides/flags.md is out of date: run python docs/_ext/flags_table.py")
    else:
        PAGE.write_text(with_tables(page))
    print("\n".join(wrong), end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
