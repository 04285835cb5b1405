"""Time of fluid programs as a share of Paddle 1.8.5's; the two alternate.

    python benches/compare_fluid.py PYTHON_WITH_1.8.5 [--rounds 5] [--threads 1 2] [NAME...]

Sequences with LoD, decoding, detection, a loop of small steps and two networks of the book, forward and backward where
they have gradients; the same seeded inputs, the median step of each process, the median ratio of the rounds. Both run
on as many cores as threads. (This file runs on Python 3.7, too.)
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

#: least and most words of a sentence, sentences of a batch
SHORT, LONG, BATCH = 20, 80, 32


class Net:
    """Inputs with their data, and the fetched variables, of one program."""

    def __init__(self):
        import numpy as np
        from paddle import fluid

        self.np, self.fluid, self.layers = np, fluid, fluid.layers
        self.random = np.random.RandomState(0)
        self.lengths = self.random.randint(SHORT, LONG + 1, BATCH).tolist()
        self.feed = {}

    def data(self, name, array, lengths=None, gradient=False):
        """An input whose rows form sequences of `lengths`."""
        var = self.fluid.data(name, [None] + list(array.shape[1:]), str(array.dtype), 1 if lengths else 0)
        var.stop_gradient = not gradient
        place = self.fluid.CPUPlace()
        self.feed[name] = self.fluid.create_lod_tensor(array, [lengths], place) if lengths else array
        return var

    def floats(self, name, *shape, lengths=None, gradient=False):
        return self.data(name, self.random.uniform(-1, 1, shape).astype("float32"), lengths, gradient)

    def words(self, name, most, lengths=None, count=None, kind="int64"):
        rows = sum(lengths) if lengths else count
        return self.data(name, self.random.randint(0, most, (rows, 1)).astype(kind), lengths)

    def trained(self, loss, rate=0.001):
        """Fetches of a network that learns."""
        loss = self.layers.mean(loss)
        self.fluid.optimizer.Adagrad(learning_rate=rate).minimize(loss)
        return [loss]

    def differentiated(self, out, x):
        """Fetches of an operator that has no parameters."""
        loss = self.layers.mean(out)
        return [loss] + self.fluid.gradients(loss, x)


def dynamic_lstm(net):
    x = net.floats("x", sum(net.lengths), 512, lengths=net.lengths)
    return net.trained(net.layers.dynamic_lstm(x, 512)[0])


def dynamic_gru(net):
    x = net.floats("x", sum(net.lengths), 384, lengths=net.lengths)
    return net.trained(net.layers.dynamic_gru(x, 128))


def sequence_pool(net):
    x = net.floats("x", sum(net.lengths), 128, lengths=net.lengths, gradient=True)
    return net.differentiated(net.layers.sequence_pool(x, "max"), x)


def sequence_conv(net):
    x = net.floats("x", sum(net.lengths), 128, lengths=net.lengths)
    return net.trained(net.layers.sequence_conv(x, 128, filter_size=3))


def sequence_softmax(net):
    lengths = net.random.randint(SHORT, LONG + 1, 20 * BATCH).tolist()
    x = net.floats("x", sum(lengths), 1, lengths=lengths, gradient=True)
    return net.differentiated(net.layers.square(net.layers.sequence_softmax(x)), x)


def crf(net):
    x = net.floats("x", sum(net.lengths), 64, lengths=net.lengths)
    label = net.words("label", 32, net.lengths)
    emission = net.layers.fc(x, 32)
    parameter = net.fluid.ParamAttr(name="transitions")
    cost = net.layers.linear_chain_crf(emission, label, param_attr=parameter)
    found = net.layers.crf_decoding(emission, param_attr=parameter)
    return net.trained(cost) + [net.layers.reduce_sum(found)]


def warpctc(net):
    x = net.floats("x", sum(net.lengths), 64, lengths=net.lengths)
    label = net.words("label", 63, [n // 4 for n in net.lengths], kind="int32")
    return net.trained(net.layers.warpctc(net.layers.fc(x, 64), label, blank=63))


def nce(net):
    x, label = net.floats("x", 256, 128), net.words("label", 20000, count=256)
    return net.trained(net.layers.nce(x, label, num_total_classes=20000, num_neg_samples=20, seed=1))


def multiclass_nms(net):
    corner = net.random.uniform(0, 400, (2, 2000, 2))
    boxes = net.np.concatenate([corner, corner + net.random.uniform(10, 100, (2, 2000, 2))], 2).astype("float32")
    scores = net.random.dirichlet([0.1] * 21, (2, 2000)).transpose(0, 2, 1).astype("float32")
    found = net.layers.multiclass_nms(net.data("boxes", boxes), net.data("scores", scores), 0.05, 400, 200)
    return [net.layers.reduce_sum(found)]


def roi_align(net):
    x = net.floats("x", 1, 256, 50, 50, gradient=True)
    corner = net.random.uniform(0, 500, (256, 2))
    rois = net.np.concatenate([corner, corner + net.random.uniform(20, 280, (256, 2))], 1).astype("float32")
    rois = net.data("rois", rois, [256])
    return net.differentiated(net.layers.roi_align(x, rois, 7, 7, 1 / 16.0, 2), x)


def while_loop(net):
    layers = net.layers
    x = layers.assign(net.floats("x", 4, 16))
    step, steps = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 100)
    more = layers.less_than(step, steps)
    loop = layers.While(more)
    with loop.block():
        layers.assign(layers.tanh(layers.elementwise_add(layers.scale(x, 0.5), x)), x)
        layers.increment(step, in_place=True)
        layers.less_than(step, steps, cond=more)
    return [layers.mean(x)]


def sentiment(net):
    """understand_sentiment's stacked LSTM, with the book's sizes."""
    layers = net.layers
    words, label = net.words("words", 5147, net.lengths), net.words("label", 2, count=BATCH)
    x = layers.fc(layers.embedding(words, [5147, 128]), 512)
    inputs = [x, layers.dynamic_lstm(x, 512)[0]]
    for i in range(2, 4):
        x = layers.fc(inputs, 512)
        inputs = [x, layers.dynamic_lstm(x, 512, is_reverse=i % 2 == 0)[0]]
    pooled = [layers.sequence_pool(x, "max") for x in inputs]
    return net.trained(layers.cross_entropy(layers.fc(pooled, 2, act="softmax"), label), 0.002)


def translation(net):
    """machine_translation's encoder and, step by step, its decoder."""
    layers, width, words = net.layers, 128, 10000
    source, target = net.words("source", words, net.lengths), net.words("target", words, net.lengths)
    label = net.words("label", words, net.lengths)
    x = layers.fc(layers.embedding(source, [words, 64], is_sparse=True), 4 * width, act="tanh")
    context = layers.sequence_last_step(layers.dynamic_lstm(x, 4 * width)[0])
    embedded = layers.embedding(target, [words, 64], is_sparse=True)
    decoder = layers.DynamicRNN()
    with decoder.block():
        word = decoder.step_input(embedded)
        state = decoder.memory(init=context)
        new = layers.fc([word, state], width, act="tanh")
        decoder.update_memory(state, new)
        decoder.output(layers.fc(new, words, act="softmax"))
    return net.trained(layers.cross_entropy(decoder(), label))


NETS = (
    dynamic_lstm,
    dynamic_gru,
    sequence_pool,
    sequence_conv,
    sequence_softmax,
    crf,
    warpctc,
    nce,
    multiclass_nms,
    roi_align,
    while_loop,
    sentiment,
    translation,
)


def child(name, seconds):
    """The median step of one process, in seconds."""
    from paddle import fluid

    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        net = Net()
        fetches = next(f for f in NETS if f.__name__ == name)(net)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    times, end = [], None
    while len(times) < 8 or time.perf_counter() < end:
        begin = time.perf_counter()
        exe.run(main, feed=net.feed, fetch_list=fetches, return_numpy=False)
        times.append(time.perf_counter() - begin)
        end = end or time.perf_counter() + seconds
    print(json.dumps(statistics.median(times[3:])))


def step(python, name, threads, seconds):
    everything = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(everything)[:threads])  # inherited by the child
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" or python == sys.executable}
    env.update(OMP_NUM_THREADS=str(threads), FLAGS_paddle_num_threads=str(threads), CPU_NUM="1")
    command = [python, os.path.abspath(__file__), python, "--child", name, "--seconds", str(seconds)]
    try:
        done = subprocess.run(command, capture_output=True, env=env, timeout=300, check=False)
    finally:
        os.sched_setaffinity(0, everything)
    if done.returncode:
        raise SystemExit(f"{name} failed under {python}:\n{done.stderr.decode()[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("theirs", help="a Python that has Paddle 1.8.5")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=1.0, help="of each process (default: %(default)s)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.seconds)
        return
    unknown = set(args.names) - {f.__name__ for f in NETS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    print("| program | threads | here, ms | 1.8.5, ms | share |\n|---|---|---|---|---|")
    for name in args.names or [f.__name__ for f in NETS]:
        for threads in args.threads:
            pairs = [
                [step(p, name, threads, args.seconds) for p in (sys.executable, args.theirs)]
                for _ in range(args.rounds)
            ]
            here, theirs = (statistics.median(pair[i] for pair in pairs) * 1e3 for i in range(2))
            share = statistics.median(a / b for a, b in pairs)
            print(f"| {name} | {threads} | {here:.3f} | {theirs:.3f} | {share:.2f} |", flush=True)


if __name__ == "__main__":
    main()
