"""100,000 runs of predictors in 4 threads, with random sizes: resident memory stays as it is after the first ones."""

from __future__ import annotations

import os

import numpy as np
import paddle
import pytest
from paddle.static.nn import fc
from served import in_threads, predictor_of

RUNS, THREADS = 100_000, 4


def network(x):
    y = fc(fc(x, 64, activation="relu"), 64, activation="relu")
    return paddle.nn.functional.softmax(fc(y, 10))


def resident() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.slow
def test_resident_memory_is_flat(export):
    first = predictor_of(export(network, ([None, 32], "float32")))
    clones = [first, *(first.clone() for _ in range(THREADS - 1))]
    data = np.random.RandomState(0).rand(400, 32).astype("float32")
    seen: dict[int, float] = {}
    failed: list[BaseException] = []

    def serve(predictor, number: int) -> None:
        sizes = np.random.RandomState(number)
        try:
            for run in range(RUNS // THREADS):
                rows = int(sizes.randint(1, 400))
                predictor.get_input_handle(predictor.get_input_names()[0]).copy_from_cpu(data[:rows])
                predictor.run()
                out = predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()
                assert out.shape == (rows, 10)
                if number == 0 and run % 1250 == 0:
                    seen[run * THREADS] = resident()
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    in_threads(serve, [(clone, i) for i, clone in enumerate(clones)])
    assert not failed
    print({run: round(size, 1) for run, size in seen.items()})
    early = max(size for run, size in seen.items() if run <= RUNS // 5)
    assert max(seen.values()) <= early + 1.0, seen
