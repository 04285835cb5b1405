"""On the path of 2.0.2's own tests for several GPUs: their ranks run on CPU places, and data sets are made up.

Python imports this at its start. What is changed is what the tests look at, when they import paddle: whether there are
GPUs, and what a CUDAPlace is.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any


def _six() -> types.ModuleType:
    """As much of the package `six` as the tests ask for, where it is not installed."""
    import functools

    six, moves = types.ModuleType("six"), types.ModuleType("six.moves")
    moves.__dict__.update(xrange=range, range=range, zip=zip, map=map, reduce=functools.reduce)
    six.__dict__.update(
        PY2=False,
        PY3=True,
        moves=moves,
        string_types=(str,),
        integer_types=(int,),
        text_type=str,
        binary_type=bytes,
        b=lambda text: text.encode("latin-1"),
        iteritems=lambda d: iter(d.items()),
        iterkeys=lambda d: iter(d),
        itervalues=lambda d: iter(d.values()),
    )
    sys.modules["six.moves"] = moves
    return six


def _samples(shape: tuple[int, ...], classes: int, count: int) -> Callable[..., Any]:
    """A reader of random samples, each with a label that can be learnt."""

    def train(*args: Any, **kwargs: Any) -> Callable[[], Iterator[tuple[Any, int]]]:
        def reader() -> Iterator[tuple[Any, int]]:
            import numpy as np

            random = np.random.RandomState(0)
            for _ in range(count):
                image = random.uniform(-1, 1, shape).astype("float32")
                yield image, int(abs(float(image.sum())) * 10) % classes

        return reader

    return train


def _on_cpu(paddle: types.ModuleType) -> None:
    core: Any = paddle.fluid.core

    def place(device_id: int = 0) -> Any:
        return paddle.CPUPlace()

    for module in (paddle, paddle.fluid, core):
        module.CUDAPlace = place
        module.is_compiled_with_cuda = lambda: True
    paddle.fluid.cuda_places = lambda ids=None: [paddle.CPUPlace() for _ in ids or [0]]
    set_device = paddle.set_device
    paddle.set_device = lambda name: set_device("cpu" if name.startswith("gpu") else name)
    core.get_cuda_device_count = lambda: 2
    for name, made in (("mnist", _samples((784,), 10, 1000)), ("flowers", _samples((3 * 224 * 224,), 102, 100))):
        data = getattr(paddle.dataset, name)
        data.train = data.test = data.valid = made
        data.fetch = lambda: None
    if "OAR_TEST_DATA" in os.environ:
        _from_folder(paddle.dataset, os.environ["OAR_TEST_DATA"])


def _from_folder(dataset: Any, folder: str) -> None:
    """What would be downloaded is there already, and sentences are of 50 words."""
    dataset.common.DATA_HOME = folder
    dataset.common.download = lambda url, module, md5, name=None: os.path.join(folder, module, url.rpartition("/")[2])

    def train(words: dict[str, int], n: int) -> Callable[[], Iterator[tuple[int, ...]]]:
        def reader() -> Iterator[tuple[int, ...]]:
            for at in range(1000):
                yield tuple((7 * at + k * k) % len(words) for k in range(n))

        return reader

    dataset.imikolov.build_dict = lambda min_word_freq=50: {f"word{k}": k for k in range(50)}
    dataset.imikolov.train = dataset.imikolov.test = train


class _AfterPaddle(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds paddle once, and changes it when it has been imported."""

    def __init__(self) -> None:
        self.spec: Any = None

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name == "six":
            found = importlib.machinery.PathFinder.find_spec(name, path)
            if found is None:
                sys.modules["six"] = _six()
                found = importlib.machinery.ModuleSpec(name, self)
            return found
        if name != "paddle" or self.spec is not None:
            return None
        self.spec = importlib.machinery.PathFinder.find_spec(name, path)
        if self.spec is None:
            return None
        self.loader, self.spec.loader = self.spec.loader, self
        return self.spec

    def create_module(self, spec: Any) -> Any:
        return sys.modules.get("six") if spec.name == "six" else self.loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ == "six":
            return
        self.loader.exec_module(module)
        _on_cpu(module)


sys.meta_path.insert(0, _AfterPaddle())
