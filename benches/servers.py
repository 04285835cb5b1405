"""Parameter servers on this machine: what a step costs, and how fast one server gives and takes values.

    python benches/servers.py train [--sparse] [--mode async] [--pairs 1,1 2,2 4,4 8,8] [--peer PYTHON]
    python benches/servers.py alone [--clients 4] [--seconds 2]

`train` starts servers and trainers of a click model (a table of 100,000 rows of 16 floats, three dense layers, 128
samples a trainer) and prints the steps of all trainers a second, and the CPU milliseconds of a trainer's step at the
trainers and at the servers. `--peer` runs the same file with another interpreter (Paddle 1.8.5, Python 3.7) beside
this one, by turns.
`alone` asks one server for rows and dense values by so many clients, and puts plain sockets of the same run beside it.
"""
import argparse
import os
import socket
import subprocess
import sys
import threading
import time

import numpy as np

ROWS, DIM, FIELDS, DENSE, BATCH = 100000, 16, 26, 13, 128
LIMIT = 240


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Processes:
    """Processes of one measurement; whatever happens, none is left."""

    def __init__(self):
        self.all = []
        self.watch = threading.Timer(LIMIT, self.end)
        self.watch.daemon = True
        self.watch.start()

    def start(self, python, *arguments):
        env = dict(os.environ, OMP_NUM_THREADS="1", CPU_NUM="1", GLOG_v="0", OAR_PS_BESIDE="1")
        command = [python, os.path.abspath(__file__)] + [str(a) for a in arguments]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, env=env, universal_newlines=True, **pipes)
        self.all.append(process)
        return process

    def end(self):
        self.watch.cancel()
        for p in self.all:
            if p.poll() is None:
                p.kill()
            p.wait()


def hear(process, word):
    """What stands behind `word` in a line of the process."""
    while True:
        line = process.stdout.readline()
        if not line:
            raise SystemExit("a process ended before it said %r" % word)
        if line.startswith(word):
            return line[len(word):].strip()


def tell(process):
    process.stdin.write("go\n")
    process.stdin.flush()


def say(word, more=""):
    print(word, more, flush=True)


def cpu(processes):
    """CPU seconds that they have taken."""
    total = 0
    for p in processes:
        with open("/proc/%d/stat" % p.pid) as f:
            fields = f.read().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / float(os.sysconf("SC_CLK_TCK"))


# Training


def model(sparse):
    import paddle.fluid as fluid

    ids = fluid.layers.data("ids", [1], dtype="int64")
    dense = fluid.layers.data("dense", [DENSE], dtype="float32")
    label = fluid.layers.data("label", [1], dtype="float32")
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(0.01))
    deep = fluid.layers.embedding(ids, size=[ROWS, DIM], is_sparse=sparse, param_attr=table)
    x = fluid.layers.concat([fluid.layers.reshape(deep, [-1, FIELDS * DIM]), dense], axis=1)
    for width in (256, 128):
        x = fluid.layers.fc(x, width, act="relu")
    logits = fluid.layers.fc(x, 1)
    return fluid.layers.mean(fluid.layers.sigmoid_cross_entropy_with_logits(logits, label))


def train_role(args):
    import paddle
    import paddle.fluid as fluid

    if hasattr(paddle, "enable_static"):
        paddle.enable_static()
    loss = model(args.sparse)
    fluid.optimizer.SGD(0.1).minimize(loss)
    executor = fluid.Executor(fluid.CPUPlace())
    config = fluid.DistributeTranspilerConfig()
    config.slice_var_up = args.slice
    t = fluid.DistributeTranspiler(config=config)
    trainer = args.index if args.role == "trainer" else 0
    t.transpile(trainer, pservers=args.endpoints, trainers=args.trainers, sync_mode=args.mode == "sync")
    if args.role == "server":
        main, startup = t.get_pserver_programs(args.endpoints.split(",")[args.index])
        executor.run(startup)
        executor.run(main)
        return
    executor.run(fluid.default_startup_program())
    program = t.get_trainer_program()
    draw = np.random.RandomState(args.index)
    batches = []
    for _ in range(8):
        ids = draw.randint(0, ROWS, (BATCH, FIELDS, 1)).astype("int64")
        dense, label = draw.rand(BATCH, DENSE).astype("float32"), (ids[:, 0] % 2).astype("float32")
        batches.append({"ids": ids.reshape(-1, 1), "dense": dense, "label": label})
    for step in range(10):
        executor.run(program, feed=batches[step % 8], fetch_list=[loss])
    say("ready")
    sys.stdin.readline()
    start = time.time()
    for step in range(args.steps):
        executor.run(program, feed=batches[step % 8], fetch_list=[loss])
    say("done", str(time.time() - start))
    sys.stdin.readline()
    executor.close()


def measure(python, servers, trainers, args):
    processes = Processes()
    try:
        endpoints = ",".join("127.0.0.1:%d" % port for port in free_ports(servers))
        same = ["train", "--mode", args.mode, "--steps", args.steps, "--trainers", trainers, "--endpoints", endpoints]
        same += ["--sparse"] * args.sparse + ["--slice"] * args.slice
        roles = [[processes.start(python, *same + ["--role", role, "--index", i]) for i in range(count)]
                 for role, count in (("server", servers), ("trainer", trainers))]  # fmt: skip
        for p in roles[1]:
            hear(p, "ready")
        before = [cpu(r) for r in roles]
        for p in roles[1]:
            tell(p)
        seconds = [float(hear(p, "done")) for p in roles[1]]
        each = [1000 * (cpu(r) - b) / args.steps / trainers for r, b in zip(roles, before)]  # noqa: B905 (3.7 has no strict)
        for p in roles[1]:
            tell(p)
        for p in roles[1]:
            p.wait()
        return {"steps_per_s": sum(args.steps / s for s in seconds), "trainer_ms": each[1], "server_ms": each[0]}
    finally:
        processes.end()


def median(found):
    return {k: float(np.median([f[k] for f in found])) for k in found[0]}


def train(args):
    if args.role:
        return train_role(args)
    pythons = {"ours": sys.executable}
    if args.peer:
        pythons["peer"] = args.peer
    print("%-6s %7s %8s %12s %22s %22s" % ("", "servers", "trainers", "steps/s", "CPU ms/step: trainer", "servers"))
    for pair in args.pairs:
        servers, trainers = (int(n) for n in pair.split(","))
        found = {name: [] for name in pythons}
        for _ in range(args.rounds):
            for name, python in pythons.items():
                found[name].append(measure(python, servers, trainers, args))
        for name, all_of in found.items():
            m = median(all_of)
            print("%-6s %7d %8d %12.1f %22.2f %22.2f" % (
                name, servers, trainers, m["steps_per_s"], m["trainer_ms"], m["server_ms"]), flush=True)  # fmt: skip
    return None


# One server alone


def block_of(program, grad, param, rate):
    block = program._create_block()
    inputs = {"Param": [param], "Grad": [grad], "LearningRate": [rate]}
    block.append_op(type="sgd", inputs=inputs, outputs={"ParamOut": [param]})
    program._rollback()
    return block


def alone_role(args):
    import paddle
    from paddle import _core

    paddle.enable_static()
    rows_kind = _core.VarDesc.VarType.SELECTED_ROWS
    executor, scope = paddle.static.Executor(paddle.CPUPlace()), paddle.static.global_scope()
    program = paddle.static.Program()
    top = program.global_block()
    shapes = {"table": [args.rows, args.width], "dense": [args.dense // 4]}
    if args.role == "server":
        rate = top.create_var(name="rate", shape=[1], dtype="float32", persistable=True)
        scope.var("rate").get_tensor().set(np.full(1, 1e-3, "float32"), paddle.CPUPlace())
        blocks, grads, pairs = [], [], []
        for name, shape in shapes.items():
            param = top.create_var(name=name, shape=shape, dtype="float32", persistable=True)
            scope.var(name).get_tensor().set(np.ones(shape, "float32"), paddle.CPUPlace())
            kind = {"type": rows_kind} if name == "table" else {}
            grads.append(top.create_var(name=name + "_grad", shape=shape, dtype="float32", **kind))
            blocks.append(block_of(program, grads[-1], param, rate))
            pairs.append("%s_grad:%d" % (name, blocks[-1].idx))
        attrs = {"endpoint": args.endpoints, "Fanin": args.trainers, "optimize_blocks": blocks, "distributed_mode": 1,
                 "grad_to_block_id": pairs}  # fmt: skip
        top.append_op(type="listen_and_serv", inputs={"X": grads}, outputs={}, attrs=attrs)
        executor.run(program)
        return
    draw, to = np.random.RandomState(args.index), {"endpoints": [args.endpoints], "trainer_id": args.index}
    ids = draw.choice(args.rows, args.batch, replace=False)

    def pull_rows():
        top.create_var(name="table", shape=shapes["table"], dtype="float32", persistable=True)
        startup = paddle.static.Program()
        startup.global_block().create_var(name="table", shape=shapes["table"], dtype="float32", persistable=True)
        attrs = {"shape": shapes["table"]}
        startup.global_block().append_op(type="fake_init", inputs={}, outputs={"Out": "table"}, attrs=attrs)
        executor.run(startup)
        top.create_var(name="ids", shape=[args.batch, 1], dtype="int64", persistable=True)
        scope.var("ids").get_tensor().set(ids.reshape(-1, 1), paddle.CPUPlace())
        top.create_var(name="rows", dtype="float32")
        names = {"table_names": ["table"], **to}
        inputs = {"Ids": "ids", "W": "table"}
        top.append_op(type="distributed_lookup_table", inputs=inputs, outputs={"Outputs": "rows"}, attrs=names)

    def push(name, value, **kind):
        top.create_var(name=name, shape=shapes[name[:-5]], dtype="float32", persistable=True, **kind)
        if kind:
            held = scope.var(name).get_selected_rows()
            held.set_height(args.rows)
            held.set_rows([int(i) for i in ids])
            held.get_tensor().set(value, paddle.CPUPlace())
        else:
            scope.var(name).get_tensor().set(value, paddle.CPUPlace())
        top.append_op(type="send", inputs={"X": name}, outputs={"Out": []}, attrs=to)
        top.append_op(type="send_barrier", inputs={"X": []}, outputs={"Out": []}, attrs={"half_async": True, **to})

    def pull_dense():
        top.create_var(name="dense", shape=shapes["dense"], dtype="float32", persistable=True)
        attrs = {"epmap": [args.endpoints], "trainer_id": args.index}
        top.append_op(type="recv", inputs={"X": []}, outputs={"Out": "dense"}, attrs=attrs)

    kinds = {
        "pull rows": pull_rows,
        "push rows": lambda: push("table_grad", np.ones((args.batch, args.width), "float32"), type=rows_kind),
        "pull dense": pull_dense,
        "push dense": lambda: push("dense_grad", np.ones(shapes["dense"], "float32")),
    }
    for kind in kinds.values():
        program = paddle.static.Program()
        top = program.global_block()
        kind()
        for _ in range(3):
            executor.run(program)
        say("ready")
        sys.stdin.readline()
        count, start = 0, time.time()
        while time.time() - start < args.seconds:
            executor.run(program)
            count += 1
        say("done", str(count / (time.time() - start)))
        sys.stdin.readline()
    executor.close()


def sockets(seconds):
    """GB/s that a process gives another by plain sockets, a MiB at a time."""
    door = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        with socket.create_connection(door.getsockname()) as s:
            piece, end = bytes(1 << 20), time.time() + seconds
            while time.time() < end:
                s.sendall(piece)
        os._exit(0)
    s, total, room = door.accept()[0], 0, memoryview(bytearray(1 << 20))
    start = time.time()
    while True:
        got = s.recv_into(room)
        if not got:
            break
        total += got
    took = time.time() - start
    os.waitpid(child, 0)
    return total / took / 1e9


def alone(args):
    if args.role:
        return alone_role(args)
    print("%9s %6s %8s %-11s %12s %8s %14s" % ("rows", "width", "clients", "", "requests/s", "GB/s", "plain sockets"))
    sizes = ((args.rows, args.width), (args.rows * 10, args.width), (args.rows, 8 * args.width))
    for rows, width in sizes:
        for clients in sorted({1, args.clients}):
            processes = Processes()
            try:
                same = ["alone", "--endpoints", "127.0.0.1:%d" % free_ports(1)[0], "--trainers", clients]
                same += ["--rows", rows, "--width", width, "--batch", args.batch, "--dense", args.dense]
                same += ["--seconds", args.seconds]
                processes.start(sys.executable, *same + ["--role", "server"])
                start = [*same, "--role", "trainer", "--index"]
                all_of = [processes.start(sys.executable, *start, i) for i in range(clients)]
                for kind in ("pull rows", "push rows", "pull dense", "push dense"):
                    for p in all_of:
                        hear(p, "ready")
                    for p in all_of:
                        tell(p)
                    rate = sum(float(hear(p, "done")) for p in all_of)
                    plain = sockets(min(args.seconds, 1))
                    for p in all_of:
                        tell(p)
                    moved = args.dense if "dense" in kind else args.batch * (4 * width + 8)
                    print("%9d %6d %8d %-11s %12.1f %8.2f %14.2f" % (
                        rows, width, clients, kind, rate, rate * moved / 1e9, plain), flush=True)  # fmt: skip
                for p in all_of:
                    p.wait()
            finally:
                processes.end()
    return None


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("what", choices=("train", "alone"))
    ask.add_argument("--mode", choices=("sync", "async"), default="sync")
    ask.add_argument("--sparse", action="store_true")
    ask.add_argument("--slice", action="store_true", help="cut the table among the servers (slice_var_up)")
    ask.add_argument("--pairs", nargs="+", default=["1,1", "2,2", "4,4", "8,8"], help="servers,trainers")
    ask.add_argument("--steps", type=int, default=60)
    ask.add_argument("--rounds", type=int, default=1, help="the medians of so many")
    ask.add_argument("--peer", help="another interpreter that has paddle.fluid")
    ask.add_argument("--clients", type=int, default=4)
    ask.add_argument("--seconds", type=float, default=2.0)
    ask.add_argument("--rows", type=int, default=100000)
    ask.add_argument("--width", type=int, default=16)
    ask.add_argument("--batch", type=int, default=4096)
    ask.add_argument("--dense", type=int, default=64 << 20, help="bytes of the dense value")
    for own in ("--role", "--endpoints"):
        ask.add_argument(own, help=argparse.SUPPRESS)
    for own in ("--index", "--trainers"):
        ask.add_argument(own, type=int, default=0, help=argparse.SUPPRESS)
    args = ask.parse_args()
    (train if args.what == "train" else alone)(args)


if __name__ == "__main__":
    main()
