"""A GRU that learns to write, character by character, from the help texts that come with Python.

    python examples/char_gru.py [--steps N] [--out FOLDER] [--begin TEXT]

It reads the topics of `help()` (pydoc_data, part of Python under the PSF licence), trains for about a minute on two
cores, saves the model, and writes a few lines of its own: the words look right and make little sense.
"""

import argparse
import os
import sys
import time

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

LENGTH, BATCH, SEED = 48, 32, 7


def load_text(limit=300_000):
    """The text, and its different characters in order."""
    from pydoc_data.topics import topics

    lines = [line for name in sorted(topics) for line in topics[name].splitlines()]
    text = "\n".join(line for line in lines if not line.lstrip().startswith(("+", "|")))[:limit]  # no tables
    return text, sorted(set(text))


class Writer(nn.Layer):
    """Scores of the next character at each position of a text, and the state after the last one."""

    def __init__(self, characters, width=128):
        super().__init__()
        self.embed = nn.Embedding(characters, 32)
        self.gru = nn.GRU(32, width)
        self.scores = nn.Linear(width, characters)

    def forward(self, numbers, state=None):
        out, state = self.gru(self.embed(numbers), state)
        return self.scores(out), state


def batches(numbers, steps):
    """[BATCH, LENGTH + 1] pieces of the text, from random positions."""
    for _ in range(steps):
        places = np.random.randint(0, len(numbers) - LENGTH - 1, BATCH)
        yield numbers[places[:, None] + np.arange(LENGTH + 1)]


def show(step, steps, loss, begin):
    """Prints progress over the previous line; every hundred steps on a new line."""
    text = "step %d/%d  loss %.3f  %.0f s" % (step, steps, loss, time.perf_counter() - begin)
    if sys.stdout.isatty():
        print("\r" + text, end="" if step % 100 and step < steps else "\n", flush=True)
    elif step % 100 == 0 or step == steps:
        print(text, flush=True)


def train(text, alphabet, steps):
    """A trained Writer, and the loss of every step."""
    paddle.seed(SEED)
    np.random.seed(SEED)
    place = {c: i for i, c in enumerate(alphabet)}
    numbers = np.array([place[c] for c in text], "int64")
    model = Writer(len(alphabet))
    rate = paddle.optimizer.lr.CosineAnnealingDecay(0.008, T_max=steps)
    adam = paddle.optimizer.Adam(rate, parameters=model.parameters(), grad_clip=nn.ClipGradByGlobalNorm(1.0))
    losses, begin = [], time.perf_counter()
    for step, piece in enumerate(batches(numbers, steps), 1):
        scores, _ = model(paddle.to_tensor(piece[:, :-1]))
        loss = F.cross_entropy(
            paddle.reshape(scores, [-1, len(alphabet)]), paddle.to_tensor(piece[:, 1:].reshape(-1, 1))
        )
        loss.backward()
        adam.step()
        adam.clear_grad()
        rate.step()
        losses.append(loss.item())
        show(step, steps, losses[-1], begin)
    return model, losses


def write(model, alphabet, begin, length, warmth=0.6):
    """`begin` and its continuation by the model; a higher temperature is more random."""
    model.eval()
    known = [alphabet.index(c) for c in begin if c in alphabet] or [0]
    text, state = [alphabet[i] for i in known], None
    fed = paddle.to_tensor(np.array([known], "int64"))
    with paddle.no_grad():
        for _ in range(length):
            scores, state = model(fed, state)
            chances = F.softmax(scores[0, -1] / warmth).numpy().astype("float64")
            chosen = np.random.choice(len(alphabet), p=chances / chances.sum())
            text.append(alphabet[chosen])
            fed = paddle.to_tensor(np.array([[chosen]], "int64"))
    return "".join(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--out", default="char_model", help="folder for the model")
    parser.add_argument("--begin", default="The ", help="what the text begins with")
    args = parser.parse_args()
    text, alphabet = load_text()
    print("%d characters, %d different ones" % (len(text), len(alphabet)))
    model, _ = train(text, alphabet, args.steps)
    path = os.path.join(args.out, "writer.pdparams")
    paddle.save(model.state_dict(), path)
    again = Writer(len(alphabet))
    again.set_state_dict(paddle.load(path))
    print("saved in %s; it writes:\n\n%s" % (path, write(again, alphabet, args.begin, 400)))


if __name__ == "__main__":
    main()
