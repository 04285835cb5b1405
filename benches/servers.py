"""Parameter servers on this machine: cost of a step, and bytes per second of pulls and pushes.

    python benches/servers.py train [--sparse] [--mode async] [--pairs 1,1 2,2 4,4 8,8] [--peer PYTHON]
    python benches/servers.py alone [--clients 1 4] [--servers 1] [--rounds 3] [--seconds 1]

`train` starts servers and trainers of a click model (a table of 100,000 rows of 16 floats, three dense layers, 128
samples a trainer) and prints the steps of all trainers a second, and the CPU milliseconds of a trainer's step at the
trainers and at the servers. `--peer` runs the same file alternately with another interpreter (Paddle 1.8.5,
Python 3.7).
`alone` pulls and pushes rows and dense values by that number of clients, over TCP (`--memory`: through shared memory).
Each figure is followed by that of plain sockets, measured alternately: as many connections, each of a process that
writes messages of the same size (at most a MiB at a time) to a process that reads them into one buffer, without answers
and without checksums. Plain sockets use the system's congestion control; with one that paces (bbr) streams without
pacing are faster (`--unpaced`). A server's connections within a host are not paced.
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
KINDS = "pull-rows", "push-rows", "pull-dense", "push-dense"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Processes:
    """Processes of one measurement; all are killed at its end and after LIMIT seconds."""

    def __init__(self):
        self.all = []
        self.watch = threading.Timer(LIMIT, self.end)
        self.watch.daemon = True
        self.watch.start()

    def start(self, python, *arguments):
        env = dict(os.environ, OMP_NUM_THREADS="1", CPU_NUM="1", GLOG_v="0", OAR_PS_BACKGROUND="1")
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


def read_line(process, word):
    """The rest of the first line of the process that begins with `word`."""
    while True:
        line = process.stdout.readline()
        if not line:
            raise SystemExit("a process ended before it said %r" % word)
        if line.startswith(word):
            return line[len(word) :].strip()


def send_line(process, word="go"):
    process.stdin.write(word + "\n")
    process.stdin.flush()


def print_line(word, more=""):
    print(word, more, flush=True)


def cpu(processes):
    """CPU seconds of the processes."""
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
    print_line("ready")
    sys.stdin.readline()
    start = time.time()
    for step in range(args.steps):
        executor.run(program, feed=batches[step % 8], fetch_list=[loss])
    print_line("done", str(time.time() - start))
    sys.stdin.readline()
    executor.close()


def measure(python, servers, trainers, args):
    processes = Processes()
    try:
        endpoints = ",".join("127.0.0.1:%d" % port for port in free_ports(servers))
        same = ["train", "--mode", args.mode, "--steps", args.steps, "--trainers", trainers, "--endpoints", endpoints]
        same += ["--sparse"] * args.sparse + ["--slice"] * args.slice
        roles = [
            [processes.start(python, *same + ["--role", role, "--index", i]) for i in range(count)]
            for role, count in (("server", servers), ("trainer", trainers))
        ]
        for p in roles[1]:
            read_line(p, "ready")
        before = [cpu(r) for r in roles]
        for p in roles[1]:
            send_line(p)
        seconds = [float(read_line(p, "done")) for p in roles[1]]
        each = [1000 * (cpu(r) - b) / args.steps / trainers for r, b in zip(roles, before)]  # noqa: B905 (3.7 has no strict)
        for p in roles[1]:
            send_line(p)
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
            print(
                "%-6s %7d %8d %12.1f %22.2f %22.2f"
                % (name, servers, trainers, m["steps_per_s"], m["trainer_ms"], m["server_ms"]),
                flush=True,
            )
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
    places = args.endpoints.split(",")
    servers = len(places)
    shapes = {"table": [args.rows, args.width], "dense": [args.dense // 4]}
    shares = {name: [shape[0] // servers, *shape[1:]] for name, shape in shapes.items()}
    if args.role == "server":
        rate = top.create_var(name="rate", shape=[1], dtype="float32", persistable=True)
        scope.var("rate").get_tensor().set(np.full(1, 1e-3, "float32"), paddle.CPUPlace())
        blocks, grads, pairs = [], [], []
        for name, shape in shares.items():
            param = top.create_var(name=name, shape=shape, dtype="float32", persistable=True)
            scope.var(name).get_tensor().set(np.ones(shape, "float32"), paddle.CPUPlace())
            kind = {"type": rows_kind} if name == "table" else {}
            grads.append(top.create_var(name=name + "_grad", shape=shape, dtype="float32", **kind))
            blocks.append(block_of(program, grads[-1], param, rate))
            pairs.append("%s_grad:%d" % (name, blocks[-1].idx))
        attrs = {
            "endpoint": places[args.index],
            "Fanin": args.trainers,
            "optimize_blocks": blocks,
            "distributed_mode": 1,
            "grad_to_block_id": pairs,
        }
        top.append_op(type="listen_and_serv", inputs={"X": grads}, outputs={}, attrs=attrs)
        executor.run(program)
        return
    draw, to = np.random.RandomState(args.index), {"endpoints": places, "trainer_id": args.index}
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
        names = {"table_names": ["table"] * servers, **to}
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
        cut = {"send_varnames": [name] * servers, "sections": [shares[name[:-5]][0]] * servers} if servers > 1 else {}
        top.append_op(type="send", inputs={"X": name}, outputs={"Out": []}, attrs={**cut, **to})
        top.append_op(type="send_barrier", inputs={"X": []}, outputs={"Out": []}, attrs={"half_async": True, **to})

    def pull_dense():
        outs = ["dense%d" % i for i in range(servers)]
        for out in outs:
            top.create_var(name=out, shape=shares["dense"], dtype="float32", persistable=True)
        attrs = {"epmap": places, "trainer_id": args.index, "varnames": ["dense"] * servers}
        top.append_op(type="recv", inputs={"X": []}, outputs={"Out": outs}, attrs=attrs)

    kinds = {
        "pull-rows": pull_rows,
        "push-rows": lambda: push("table_grad", np.ones((args.batch, args.width), "float32"), type=rows_kind),
        "pull-dense": pull_dense,
        "push-dense": lambda: push("dense_grad", np.ones(shapes["dense"], "float32")),
    }
    for name in args.kinds:
        program = paddle.static.Program()
        top = program.global_block()
        kinds[name]()
        for _ in range(3):
            executor.run(program)
        print_line("ready")
        while sys.stdin.readline().strip() == "go":
            count, start = 0, time.time()
            while time.time() - start < args.seconds:
                executor.run(program)
                count += 1
            print_line("done", str(count / (time.time() - start)))
    executor.close()


def sockets(message, connections, seconds, unpaced=False):
    """GB/s from that number of processes to as many others by plain sockets, in messages of that size."""
    door, ends, children = socket.create_server(("127.0.0.1", 0)), [], []

    def child(work):
        pid = os.fork()
        if pid == 0:
            try:
                work()
            finally:
                os._exit(0)
        children.append(pid)

    def give():
        with socket.create_connection(door.getsockname()) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if unpaced:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
            piece = bytes(min(message, 1 << 20))
            while time.time() - start < seconds:
                s.sendall(piece)

    def take(s, end):
        room, total, got = memoryview(bytearray(1 << 20)), 0, 1
        while got:
            got = s.recv_into(room)
            total += got
        os.write(end, b"%d" % total)

    start = time.time()
    for _ in range(connections):
        child(give)
        (here, there), s = os.pipe(), door.accept()[0]
        child(lambda s=s, there=there: take(s, there))
        s.close()
        os.close(there)
        ends.append(here)
    total = sum(int(os.read(end, 32)) for end in ends)
    took = time.time() - start
    for end in ends:
        os.close(end)
    for pid in children:
        os.waitpid(pid, 0)
    door.close()
    return total / took / 1e9


def alone(args):
    if args.role:
        return alone_role(args)
    form = "%9s %6s %8s %8s %-11s %11s %7s %14s %6s %20s"
    heads = "rows", "width", "clients", "servers", "", "requests/s", "GB/s", "plain sockets", "ratio"
    print(form % (*heads, "CPU ms: client server"))
    os.environ["OAR_SHARED_MEMORY"] = "1" if args.memory else "0"
    sizes = [(args.rows, args.width)]
    if not args.one_size:
        sizes += [(args.rows * 10, args.width), (args.rows, 8 * args.width)]
    for rows, width in sizes:
        for clients in args.clients:
            processes = Processes()
            try:
                places = ",".join("127.0.0.1:%d" % port for port in free_ports(args.servers))
                same = ["alone", "--endpoints", places, "--trainers", clients, "--kinds", *args.kinds]
                same += ["--rows", rows, "--width", width, "--batch", args.batch, "--dense", args.dense]
                same += ["--seconds", args.seconds, "--index"]
                servers, trainers = (
                    [processes.start(sys.executable, *same, i, "--role", role) for i in range(count)]
                    for role, count in (("server", args.servers), ("trainer", clients))
                )
                for kind in args.kinds:
                    for p in trainers:
                        read_line(p, "ready")
                    moved = args.dense if "dense" in kind else args.batch * (4 * width + 8)
                    found = []
                    for _ in range(args.rounds):
                        plain = sockets(moved, clients, args.seconds, args.unpaced)
                        before = [cpu(servers), cpu(trainers)]
                        for p in trainers:
                            send_line(p)
                        rate = sum(float(read_line(p, "done")) for p in trainers)
                        each = [
                            1000 * (cpu(ps) - b) / args.seconds / rate
                            for ps, b in ((trainers, before[1]), (servers, before[0]))
                        ]
                        found.append((rate * moved / 1e9 / plain, rate, plain, *each))
                    for p in trainers:
                        send_line(p, "next")
                    ratio, rate, plain, client, server = np.median(found, axis=0)
                    print(
                        form
                        % (
                            rows,
                            width,
                            clients,
                            args.servers,
                            kind,
                            "%.1f" % rate,
                            "%.2f" % (rate * moved / 1e9),
                            "%.2f" % plain,
                            "%.2f" % ratio,
                            "%.2f %.2f" % (client, server),
                        ),
                        flush=True,
                    )
                for p in trainers:
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
    ask.add_argument("--clients", nargs="+", type=int, default=[1, 4])
    ask.add_argument("--servers", type=int, default=1)
    ask.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND", help=", ".join(KINDS))
    ask.add_argument("--one-size", action="store_true", help="only --rows and --width, not ten times as many of one")
    ask.add_argument("--memory", action="store_true", help="clients and servers go over to shared memory")
    ask.add_argument("--unpaced", action="store_true", help="plain sockets with reno for their congestion control")
    ask.add_argument("--seconds", type=float, default=1.0)
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
