"""Gain of a second thread: `chrt -r 1 python benches/threads.py [--only NAME,...] [--rounds N] [--most RATIO]`.

Times large calls of the operators (over 200 us with one thread) with OMP_NUM_THREADS=1 and 2, each in alternating
processes, and prints two threads' time over one's. Exits with 1 if an operator that docs/dev/kernels.md does not except
stays above RATIO (0.85).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

Case = Callable[[], Callable[[], Any]]
CASES: dict[str, Case] = {}
# One stream of random numbers, a running sum, the scan of one row: see docs/dev/kernels.md.
EXCEPT = ("random/", "serial/")


def cases() -> None:
    """Fills CASES: a maker prepares its data and returns the call to be timed."""
    import numpy as np
    import paddle
    import paddle.nn.functional as F
    from paddle import fluid

    rng = np.random.default_rng(0)

    def t(*shape: int, positive: bool = False, grad: bool = False) -> Any:
        x = rng.standard_normal(shape, "float32")
        return paddle.to_tensor(np.abs(x) + 0.1 if positive else x, stop_gradient=not grad)

    def ids(high: int, *shape: int) -> Any:
        return paddle.to_tensor(rng.integers(0, high, shape))

    wide = (2048, 1024)

    def on(call: Callable[..., Any], *makers: Callable[[], Any]) -> Case:
        def make() -> Callable[[], Any]:
            args = [m() for m in makers]
            return lambda: call(*args)

        return make

    def backward(call: Callable[..., Any], *makers: Callable[[], Any]) -> Case:
        """The gradient alone: the forward pass is done once, its graph kept."""

        def make() -> Callable[[], Any]:
            args = [m() for m in makers]
            for a in args:
                a.stop_gradient = "float" not in str(a.dtype).lower() and "fp32" not in str(a.dtype).lower()
            out = call(*args)
            seed = paddle.ones_like(out)
            wrt = [a for a in args if not a.stop_gradient]
            return lambda: paddle.grad([out], wrt, grad_outputs=[seed], retain_graph=True)

        return make

    def w() -> Any:
        return t(*wide)

    def pos() -> Any:
        return t(*wide, positive=True)

    unary = {
        name: getattr(paddle, name)
        for name in "abs exp log sqrt rsqrt square reciprocal tanh erf sin cos floor".split()
    }
    unary |= {
        name: getattr(F, name)
        for name in "relu relu6 leaky_relu log_sigmoid sigmoid gelu softplus swish hardswish elu".split()
    }
    unary |= {
        "scale": lambda x: paddle.scale(x, 2.0, 1.0),
        "clip": lambda x: paddle.clip(x, -0.5, 0.5),
        "pow": lambda x: paddle.pow(x, 2.5),
    }
    for name, call in unary.items():
        CASES[f"activation/{name}"] = on(call, pos)
        if name != "floor":
            CASES[f"activation/{name}_grad"] = backward(call, pos)
    binary = {name: getattr(paddle, name) for name in "add subtract multiply divide maximum minimum pow".split()}
    for name, call in binary.items():
        CASES[f"elementwise/{name}"] = on(call, pos, pos)
        CASES[f"elementwise/{name}_grad"] = backward(call, pos, pos)
    CASES["elementwise/add_row"] = on(paddle.add, w, lambda: t(1024))
    CASES["elementwise/add_row_grad"] = backward(paddle.add, w, lambda: t(1024))
    CASES["elementwise/add_column"] = on(paddle.add, w, lambda: t(2048, 1))
    CASES["elementwise/mod_int"] = on(paddle.mod, lambda: ids(1000, *wide), lambda: ids(7, *wide) + 1)
    CASES["elementwise/floor_divide"] = on(paddle.floor_divide, lambda: ids(1000, *wide), lambda: ids(7, *wide) + 1)
    CASES["elementwise/sum"] = on(lambda *x: paddle.add_n(list(x)), w, w, w)
    for name in "equal not_equal less_than less_equal greater_than greater_equal".split():
        CASES[f"comparison/{name}"] = on(getattr(paddle, name), w, w)
    for name in "logical_and logical_or logical_xor".split():
        CASES[f"comparison/{name}"] = on(getattr(paddle, name), lambda: t(4096, 2048) > 0, lambda: t(4096, 2048) > 0)
    CASES["comparison/logical_not"] = on(paddle.logical_not, lambda: t(4096, 2048) > 0)

    CASES["creation/fill_constant"] = on(lambda: paddle.full([4096, 1024], 1.5))
    CASES["creation/zeros_like"] = on(paddle.zeros_like, lambda: t(4096, 1024))
    CASES["creation/assign"] = on(paddle.assign, lambda: t(4096, 1024))
    CASES["serial/range"] = on(lambda: paddle.arange(0, 2_000_000, dtype="float32"))
    for to in ("float16", "float64", "int64", "bool"):
        CASES[f"elementwise/cast_{to}"] = on(lambda x, to=to: paddle.cast(x, to), w)

    square = (4096, 2048)
    for name in "sum mean max min prod".split():
        call = getattr(paddle, name)
        CASES[f"reduction/{name}_0"] = on(lambda x, call=call: call(x, axis=0), lambda: t(*square))
        CASES[f"reduction/{name}_1"] = on(lambda x, call=call: call(x, axis=1), lambda: t(*square))
        CASES[f"reduction/{name}_all"] = on(call, lambda: t(*square))
        CASES[f"reduction/{name}_grad"] = backward(lambda x, call=call: call(x, axis=1), pos)
    CASES["reduction/all"] = on(
        paddle.all if hasattr(paddle, "all") else lambda x: fluid.layers.reduce_all(x), lambda: t(4096, 4096) < 9
    )
    CASES["reduction/cumsum_1"] = on(lambda x: paddle.cumsum(x, axis=1), w)
    CASES["reduction/cumsum_0"] = on(lambda x: paddle.cumsum(x, axis=0), w)
    CASES["reduction/cumsum_grad"] = backward(lambda x: paddle.cumsum(x, axis=1), w)
    CASES["reduction/argmax_1"] = on(lambda x: paddle.argmax(x, axis=1), w)
    CASES["reduction/argmax_0"] = on(lambda x: paddle.argmax(x, axis=0), w)
    CASES["reduction/argsort"] = on(lambda x: paddle.argsort(x, axis=1), lambda: t(256, 4096))
    CASES["reduction/argsort_0"] = on(lambda x: paddle.argsort(x, axis=0), lambda: t(1024, 512))
    CASES["reduction/topk"] = on(lambda x: paddle.topk(x, 10, axis=1)[0], lambda: t(512, 4096))
    CASES["reduction/topk_grad"] = backward(lambda x: paddle.topk(x, 10, axis=1)[0], w)

    CASES["linear/matmul"] = on(paddle.matmul, lambda: t(512, 512), lambda: t(512, 512))
    CASES["linear/matmul_grad"] = backward(paddle.matmul, lambda: t(512, 512), lambda: t(512, 512))
    CASES["linear/matmul_batched"] = on(paddle.matmul, lambda: t(64, 128, 64), lambda: t(64, 64, 128))
    CASES["linear/matmul_skinny"] = on(paddle.matmul, lambda: t(8, 2048), lambda: t(2048, 2048))
    CASES["linear/matvec"] = on(paddle.matmul, lambda: t(4096, 2048), lambda: t(2048))
    CASES["linear/vecmat"] = on(paddle.matmul, lambda: t(2048), lambda: t(2048, 4096))
    CASES["linear/matmul_ta"] = on(
        lambda x, y: paddle.matmul(x, y, transpose_x=True), lambda: t(512, 512), lambda: t(512, 512)
    )

    CASES["layout/transpose"] = on(lambda x: paddle.transpose(x, [1, 0]), w)
    CASES["layout/transpose_heads"] = on(lambda x: paddle.transpose(x, [0, 2, 1, 3]), lambda: t(16, 128, 12, 64))
    CASES["layout/concat_0"] = on(lambda *x: paddle.concat(list(x), 0), w, w)
    CASES["layout/concat_1"] = on(lambda *x: paddle.concat(list(x), 1), w, w)
    CASES["layout/concat_grad"] = backward(lambda *x: paddle.concat(list(x), 1), w, w)
    CASES["layout/stack"] = on(lambda *x: paddle.stack(list(x), 1), w, w)
    CASES["layout/split"] = on(lambda x: paddle.split(x, 2, axis=1)[0], lambda: t(4096, 2048))
    CASES["layout/slice"] = on(lambda x: paddle.slice(x, [0, 1], [1, 1], [4000, 2000]), lambda: t(4096, 2048))
    CASES["layout/slice_grad"] = backward(lambda x: paddle.slice(x, [0, 1], [1, 1], [2000, 1000]), w)
    CASES["layout/strided_slice"] = on(lambda x: paddle.strided_slice(x, [1], [0], [2048], [2]), lambda: t(4096, 2048))
    CASES["layout/expand"] = on(lambda x: paddle.expand(x, [2048, 1024]), lambda: t(1, 1024))
    CASES["layout/expand_grad"] = backward(lambda x: paddle.expand(x, [2048, 1024]), lambda: t(1, 1024))
    CASES["layout/flip"] = on(lambda x: paddle.flip(x, [1]), w)

    def assign_part(x: Any, v: Any) -> Any:
        x[:, 1:1023] = v
        return x

    CASES["layout/set_value"] = on(assign_part, w, lambda: t(2048, 1022))

    CASES["indexing/gather"] = on(paddle.gather, lambda: t(20000, 128), lambda: ids(20000, 16384))
    CASES["indexing/gather_grad"] = backward(paddle.gather, lambda: t(20000, 128), lambda: ids(20000, 16384))
    CASES["indexing/scatter"] = on(
        paddle.scatter, lambda: t(20000, 128), lambda: paddle.to_tensor(rng.permutation(16384)), lambda: t(16384, 128)
    )
    CASES["indexing/scatter_add"] = on(
        lambda x, i, u: paddle.scatter(x, i, u, overwrite=False),
        lambda: t(20000, 128),
        lambda: ids(20000, 16384),
        lambda: t(16384, 128),
    )
    CASES["indexing/where"] = on(paddle.where, lambda: t(*wide) > 0, w, w)
    CASES["indexing/where_grad"] = backward(paddle.where, lambda: t(*wide) > 0, w, w)
    CASES["indexing/one_hot"] = on(lambda i: F.one_hot(i, 256), lambda: ids(256, 16384))
    CASES["indexing/embedding"] = on(F.embedding, lambda: ids(50000, 16384), lambda: t(50000, 128))
    CASES["indexing/embedding_grad"] = backward(F.embedding, lambda: ids(50000, 16384), lambda: t(50000, 128))

    CASES["convolution/3x3"] = on(
        lambda x, k: F.conv2d(x, k, padding=1), lambda: t(4, 32, 56, 56), lambda: t(32, 32, 3, 3)
    )
    CASES["convolution/3x3_grad"] = backward(
        lambda x, k: F.conv2d(x, k, padding=1), lambda: t(4, 32, 56, 56), lambda: t(32, 32, 3, 3)
    )
    CASES["convolution/depthwise"] = on(
        lambda x, k: F.conv2d(x, k, padding=1, groups=96), lambda: t(8, 96, 56, 56), lambda: t(96, 1, 3, 3)
    )
    CASES["convolution/depthwise_grad"] = backward(
        lambda x, k: F.conv2d(x, k, padding=1, groups=96), lambda: t(8, 96, 56, 56), lambda: t(96, 1, 3, 3)
    )
    for kind in ("max", "avg"):
        call = getattr(F, f"{kind}_pool2d")
        CASES[f"convolution/{kind}_pool"] = on(lambda x, call=call: call(x, 2, 2), lambda: t(8, 32, 112, 112))
        CASES[f"convolution/{kind}_pool_grad"] = backward(
            lambda x, call=call: call(x, 2, 2), lambda: t(8, 32, 112, 112)
        )

    def norm(train: bool) -> Callable[..., Any]:
        mean, var = paddle.zeros([64]), paddle.ones([64])
        return lambda x, s, b: F.batch_norm(x, mean, var, s, b, training=train)

    image = (lambda: t(8, 64, 56, 56), lambda: t(64), lambda: t(64))
    CASES["normalization/batch_norm"] = on(norm(True), *image)
    CASES["normalization/batch_norm_infer"] = on(norm(False), *image)
    CASES["normalization/batch_norm_grad"] = backward(norm(True), *image)
    CASES["normalization/layer_norm"] = on(
        lambda x, s, b: F.layer_norm(x, [1024], s, b), w, lambda: t(1024), lambda: t(1024)
    )
    CASES["normalization/layer_norm_grad"] = backward(
        lambda x, s, b: F.layer_norm(x, [1024], s, b), w, lambda: t(1024), lambda: t(1024)
    )
    CASES["loss/softmax"] = on(F.softmax, w)
    CASES["loss/softmax_grad"] = backward(F.softmax, w)
    CASES["loss/softmax_axis0"] = on(lambda x: F.softmax(x, axis=0), w)
    swce = fluid.layers.softmax_with_cross_entropy
    CASES["loss/softmax_with_cross_entropy"] = on(swce, w, lambda: ids(1024, 2048, 1))
    CASES["loss/softmax_with_cross_entropy_grad"] = backward(swce, w, lambda: ids(1024, 2048, 1))
    CASES["loss/sigmoid_cross_entropy"] = on(fluid.layers.sigmoid_cross_entropy_with_logits, w, pos)
    CASES["loss/sigmoid_cross_entropy_grad"] = backward(
        lambda x: fluid.layers.sigmoid_cross_entropy_with_logits(x, paddle.ones([*wide])), w
    )

    def optimizer(kind: Any, **options: Any) -> Case:
        def make() -> Callable[[], Any]:
            p = paddle.create_parameter([1024, 1024], "float32")
            step = kind(learning_rate=1e-3, parameters=[p], **options)
            (p * p).sum().backward()
            return step.step

        return make

    CASES["optimizer/sgd"] = optimizer(paddle.optimizer.SGD)
    CASES["optimizer/momentum"] = optimizer(paddle.optimizer.Momentum)
    CASES["optimizer/adam"] = optimizer(paddle.optimizer.Adam)

    CASES["random/uniform"] = on(lambda: paddle.uniform([1024, 1024]))
    CASES["random/gaussian"] = on(lambda: paddle.normal(shape=[1024, 1024]))
    CASES["random/randint"] = on(lambda: paddle.randint(0, 100, [1024, 1024]))
    CASES["random/randperm"] = on(lambda: paddle.randperm(100_000))
    CASES["random/dropout"] = on(lambda x: F.dropout(x, 0.5), w)
    CASES["activation/dropout_grad"] = backward(lambda x: F.dropout(x, 0.5), w)
    CASES["serial/cumsum_one_row"] = on(lambda x: paddle.cumsum(x, axis=1), lambda: t(1, 1_000_000))


def child(names: list[str]) -> None:
    """Prints the least seconds of a call of each case, as JSON."""
    cases()
    found: dict[str, Any] = {}
    for name in names or list(CASES):
        try:
            call = CASES[name]()
            call()
            start = time.perf_counter()
            call()
            inner = max(1, int(0.004 / max(time.perf_counter() - start, 1e-7)))
            samples = []
            end = time.perf_counter() + 0.15
            while len(samples) < 5 or time.perf_counter() < end:
                start = time.perf_counter()
                for _ in range(inner):
                    call()
                samples.append((time.perf_counter() - start) / inner)
            found[name] = min(samples)  # other load of the machine only adds time
            del call
        except Exception as error:  # an error of one operator does not hide the others
            found[name] = f"{type(error).__name__}: {str(error)[:100]}"
    print("RESULT", json.dumps(found))


def run(threads: int, names: list[str]) -> dict[str, Any]:
    pin = sorted(os.sched_getaffinity(0))[-threads:]
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, __file__, "--child", ",".join(names)],
        env=env,
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, set(pin)),
        check=False,
    )
    line = next((x for x in done.stdout.splitlines() if x.startswith("RESULT ")), None)
    if line is None:
        raise SystemExit(f"exit {done.returncode}: {done.stderr[-500:]}")
    return json.loads(line.removeprefix("RESULT "))


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="", help="names or prefixes, comma-separated")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--most", type=float, default=0.85)
    p.add_argument("--child", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.child is not None:
        child([n for n in args.child.split(",") if n])
        return 0
    cases()
    names = [n for n in CASES if n.startswith(tuple(args.only.split(",")))]
    rounds = [(run(1, names), run(2, names)) for _ in range(args.rounds)]
    slow = []
    print(f"{'operator':42} {'1 thread':>10} {'2 threads':>10} {'ratio':>6}")
    for name in names:
        errors = [r[name] for pair in rounds for r in pair if isinstance(r[name], str)]
        if errors:
            print(f"{name:42} {errors[0]}")
            slow.append(name)
            continue
        one, two = (min(pair[i][name] for pair in rounds) for i in (0, 1))
        ratio = two / one
        late = ratio > args.most and not name.startswith(EXCEPT) and one > 1e-4
        print(f"{name:42} {one * 1e6:8.0f}us {two * 1e6:8.0f}us {ratio:6.2f}{'  <--' if late else ''}", flush=True)
        if late:
            slow.append(name)
    print(f"{len(names)} operators, {len(slow)} without a gain: {', '.join(slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
