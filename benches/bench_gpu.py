"""Oar and torch on one device: the time of calls, on the host and in all, and of steps of five networks.

    python benches/bench_gpu.py [--device gpu|cpu|shim] [--only paddle|torch] [--nets lenet,bert] [--json FILE]

A step is forward, backward and the optimizer. `fell back` lists operators that ran on the CPU; the time of a network is
valid only where that list is empty. Times are medians of `--rounds` rounds of `--steps` steps, each round ending with a
wait. The device `shim` is the stand-in of tests/cuda, for a dry run: its times say nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RNG = np.random.default_rng(0)


def table(device: str) -> int:
    """Rows of the CTR network's table."""
    return 1000 if device == "shim" else 1_000_000


class Paddle:
    name = "paddle"

    def __init__(self, device: str) -> None:
        import paddle

        self.p, self.gpu, self.rows = paddle, device != "cpu", table(device)
        if device == "shim":
            sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "cuda"))
            import shim

            shim.use()
        paddle.set_device("gpu" if self.gpu else "cpu")

    def tensor(self, a: Any) -> Any:
        return self.p.to_tensor(a)

    def wait(self) -> None:
        if self.gpu:
            self.p.fluid._cuda_synchronize(self.p.CUDAPlace(0))

    def ops(self, x: Any, y: Any) -> dict[str, Callable[[], Any]]:
        p, f = self.p, self.p.nn.functional
        return {
            "add": lambda: x + y,
            "relu": lambda: f.relu(x),
            "softmax": lambda: f.softmax(x),
            "matmul": lambda: p.matmul(x, y),
            "sum": lambda: x.sum(),
            "layer_norm": lambda: f.layer_norm(x, [x.shape[-1]]),
            "gelu": lambda: f.gelu(x),
            "transpose": lambda: p.transpose(x, [1, 0]),
            "reshape": lambda: p.reshape(x, [-1]),
            "sum_rows": lambda: x.sum(0),
        }

    def copy(self, x: Any) -> Any:
        return self.p.scale(x, 1.0)

    def adam(self, arrays: list[Any]) -> Callable[[], Any]:
        p = self.p
        held = [p.create_parameter(list(a.shape), "float32") for a in arrays]
        for param in held:
            (param * param).sum().backward()
        return p.optimizer.Adam(1e-4, parameters=held).step

    def net(self, kind: str) -> Callable[[Any, Any], Any]:
        p, nn, f = self.p, self.p.nn, self.p.nn.functional
        if kind == "lenet":
            net = p.vision.models.LeNet()
        elif kind == "resnet18":
            net = p.vision.models.resnet18()
        elif kind == "bert":
            layer = nn.TransformerEncoderLayer(768, 12, 3072, 0.1, "gelu")
            emb, enc, out = nn.Embedding(30522, 768), nn.TransformerEncoder(layer, 12), nn.Linear(768, 2)
            net = nn.LayerList([emb, enc, out])
            forward = lambda x: out(enc(emb(x))[:, 0])  # noqa: E731
        elif kind == "lstm":
            emb, rnn, out = nn.Embedding(10000, 256), nn.LSTM(256, 512, 2), nn.Linear(512, 2)
            net = nn.LayerList([emb, rnn, out])
            forward = lambda x: out(rnn(emb(x))[0][:, -1])  # noqa: E731
        else:
            emb, mlp = nn.Embedding(self.rows, 16), [nn.Linear(26 * 16, 400), nn.Linear(400, 400), nn.Linear(400, 2)]
            net = nn.LayerList([emb, *mlp])
            forward = lambda x: mlp[2](f.relu(mlp[1](f.relu(mlp[0](p.reshape(emb(x), [-1, 26 * 16]))))))  # noqa: E731
        if kind in ("lenet", "resnet18"):
            forward = net
            opt = p.optimizer.Momentum(0.01, parameters=net.parameters())
        else:
            opt = p.optimizer.Adam(1e-4, parameters=net.parameters())

        def step(x: Any, t: Any) -> Any:
            loss = f.cross_entropy(forward(x), t)
            loss.backward()
            opt.step()
            opt.clear_grad()
            return loss

        return step


class Torch:
    name = "torch"

    def __init__(self, device: str) -> None:
        import torch

        self.t, self.device, self.rows = torch, "cuda" if device == "gpu" else "cpu", table(device)

    def tensor(self, a: Any) -> Any:
        return self.t.from_numpy(a).to(self.device)

    def wait(self) -> None:
        if self.device == "cuda":
            self.t.cuda.synchronize()

    def ops(self, x: Any, y: Any) -> dict[str, Callable[[], Any]]:
        t, f = self.t, self.t.nn.functional
        return {
            "add": lambda: x + y,
            "relu": lambda: f.relu(x),
            "softmax": lambda: f.softmax(x, -1),
            "matmul": lambda: t.matmul(x, y),
            "sum": lambda: x.sum(),
            "layer_norm": lambda: f.layer_norm(x, [x.shape[-1]]),
            "gelu": lambda: f.gelu(x),
            "transpose": lambda: x.t().contiguous(),
            "reshape": lambda: x.reshape(-1),
            "sum_rows": lambda: x.sum(0),
        }

    def copy(self, x: Any) -> Any:
        return x.clone()

    def adam(self, arrays: list[Any]) -> Callable[[], Any]:
        t = self.t
        held = [t.nn.Parameter(self.tensor(a)) for a in arrays]
        for param in held:
            param.grad = param.detach().clone()
        return t.optim.Adam(held, 1e-4).step

    def net(self, kind: str) -> Callable[[Any, Any], Any]:
        t, nn, f = self.t, self.t.nn, self.t.nn.functional
        if kind == "lenet":
            net = nn.Sequential(
                nn.Conv2d(1, 6, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(6, 16, 5),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Linear(400, 120),
                nn.Linear(120, 84),
                nn.Linear(84, 10),
            )
        elif kind == "resnet18":
            import torchvision

            net = torchvision.models.resnet18()
        elif kind == "bert":
            layer = nn.TransformerEncoderLayer(768, 12, 3072, 0.1, "gelu", batch_first=True)
            net = nn.ModuleList([nn.Embedding(30522, 768), nn.TransformerEncoder(layer, 12), nn.Linear(768, 2)])
            forward = lambda x: net[2](net[1](net[0](x))[:, 0])  # noqa: E731
        elif kind == "lstm":
            net = nn.ModuleList([nn.Embedding(10000, 256), nn.LSTM(256, 512, 2, batch_first=True), nn.Linear(512, 2)])
            forward = lambda x: net[2](net[1](net[0](x))[0][:, -1])  # noqa: E731
        else:
            net = nn.ModuleList(
                [nn.Embedding(self.rows, 16), nn.Linear(416, 400), nn.Linear(400, 400), nn.Linear(400, 2)]
            )
            forward = lambda x: net[3](f.relu(net[2](f.relu(net[1](net[0](x).reshape(-1, 416))))))  # noqa: E731
        net.to(self.device).train()
        if kind in ("lenet", "resnet18"):
            forward, opt = net, t.optim.SGD(net.parameters(), 0.01, 0.9)
        else:
            opt = t.optim.Adam(net.parameters(), 1e-4)

        def step(x: Any, y: Any) -> Any:
            loss = f.cross_entropy(forward(x), y.reshape(-1))
            loss.backward()
            opt.step()
            opt.zero_grad()
            return loss

        return step


#: the feed of a network, by its batch size, and the number of classes
FEEDS = {
    "lenet": lambda b: (RNG.normal(size=(b or 128, 1, 28, 28)).astype("float32"), 10),
    "resnet18": lambda b: (RNG.normal(size=(b or 64, 3, 224, 224)).astype("float32"), 1000),
    "bert": lambda b: (RNG.integers(0, 30522, (b or 32, 128)), 2),
    "lstm": lambda b: (RNG.integers(0, 10000, (b or 64, 64)), 2),
    "ctr": lambda b: (RNG.integers(0, 1_000_000, (b or 2048, 26)), 2),
}


def median(f: Callable[[], Any], wait: Callable[[], None], steps: int, rounds: int) -> tuple[float, float]:
    """Microseconds of a call until its end, and until it returns."""
    for _ in range(3):
        f()
    wait()
    whole, host = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(steps):
            f()
        host.append((time.perf_counter() - start) / steps * 1e6)
        wait()
        whole.append((time.perf_counter() - start) / steps * 1e6)
    return statistics.median(whole), statistics.median(host)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--device", default="gpu", choices=("gpu", "cpu", "shim"))
    a.add_argument("--only", default="paddle,torch")
    a.add_argument("--nets", default="lenet,resnet18,bert,lstm,ctr")
    a.add_argument("--batch", type=int, default=0)
    a.add_argument("--steps", type=int, default=10)
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--json")
    a.add_argument("--host-profile", help="a file for cProfile's statistics of ten steps")
    a.add_argument("--kernels", type=int, default=0, help="print so many kernels with the most time (needs torch)")
    return a.parse_args(argv)


def calls(lib: Any, given: argparse.Namespace) -> dict[str, tuple[float, float]]:
    found = {}
    for size in (64, {"gpu": 8192, "cpu": 256, "shim": 8}[given.device]):
        x, y = (lib.tensor(RNG.normal(size=(size, size)).astype("float32")) for _ in "xy")
        steps = 1 if given.device == "shim" else 200 if size == 64 else 20
        for op, f in {"copy": lambda x=x: lib.copy(x), **lib.ops(x, y)}.items():
            found[f"{op} {size}"] = median(f, lib.wait, steps, given.rounds)
    size, steps = (4, 1) if given.device == "shim" else (64, 20)
    arrays = [RNG.normal(size=(size, size)).astype("float32") for _ in range(200)]
    found["Adam, 200 parameters"] = median(lib.adam(arrays), lib.wait, steps, given.rounds)
    return found


def kernels(lib: Any, step: Callable[[], Any], most: int) -> None:
    """Prints the time of kernels in a step, read by torch's profiler, which sees those of the whole process."""
    from torch.profiler import ProfilerActivity, profile

    steps = 5
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(steps):
            step()
        lib.wait()
    rows = [(e.self_device_time_total / steps, e.count / steps, e.key) for e in seen.key_averages()]
    rows = sorted((r for r in rows if r[0] > 0), reverse=True)
    print(f"{sum(r[0] for r in rows):10.1f} us of {sum(r[1] for r in rows):.0f} kernels and copies in a step")
    for time_us, count, name in rows[:most]:
        print(f"{time_us:10.1f} us {count:7.1f} x {name[:110]}")


def network(lib: Any, name: str, given: argparse.Namespace) -> tuple[float, float] | None:
    """The time of a step; None, with the reason printed, where the network cannot run."""
    data, classes = FEEDS[name](given.batch)
    data = data % lib.rows if name == "ctr" else data
    x, t = lib.tensor(data), lib.tensor(RNG.integers(0, classes, (len(data), 1)))
    found = None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            step = lib.net(name)
            if given.host_profile and lib.name == "paddle":
                import cProfile

                cProfile.runctx(
                    "for _ in range(10): step(x, t)", {"step": step, "x": x, "t": t}, {}, given.host_profile
                )
            found = median(lambda: step(x, t), lib.wait, given.steps, given.rounds)
            if given.kernels:
                print(f"{lib.name} {name}:")
                kernels(lib, lambda: step(x, t), given.kernels)
        except Exception as e:  # the other networks are still measured
            print(f"{lib.name} {name}: {type(e).__name__}: {e}"[:300])
    back = sorted({str(w.message).split()[1] for w in said if "no CUDA kernel" in str(w.message)})
    if back:
        print(f"{lib.name} {name}: fell back: {' '.join(back)}")
    return found


def main(argv: list[str] | None = None) -> int:
    given, found = arguments(argv), {}
    for kind in (Paddle, Torch):
        if kind.name not in given.only.split(","):
            continue
        try:
            lib: Any = kind(given.device)
        except ImportError as e:
            print(f"{kind.name}: {e}")
            continue
        found |= {(what, lib.name): v for what, v in calls(lib, given).items()}
        for name in filter(None, given.nets.split(",")):
            value = network(lib, name, given)
            if value:
                found[f"{name} step", lib.name] = value
    print(f"{'':22s}{'paddle us':>12s}{'host':>10s}{'torch us':>12s}{'host':>10s}{'ratio':>8s}")
    for what in dict.fromkeys(k for k, _ in found):
        p, t = found.get((what, "paddle")), found.get((what, "torch"))
        cells = [f"{v[i]:{w}.1f}" if v else " " * w for v in (p, t) for i, w in ((0, 12), (1, 10))]
        print(f"{what:22s}{''.join(cells)}{f'{p[0] / t[0]:8.2f}' if p and t else ''}")
    if given.json:
        with open(given.json, "w") as f:
            json.dump({f"{k} {lib}": v for (k, lib), v in found.items()}, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
