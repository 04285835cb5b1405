"""The device of a DataLoader's worker processes."""

import numpy as np
import paddle
import pytest


@pytest.fixture
def current(shim):
    """All operators run on the device."""
    paddle.set_device("gpu")
    yield shim
    paddle.set_device("cpu")


class WorkerPlaces(paddle.io.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        made = paddle.to_tensor(np.ones(3, "float32"))
        try:
            paddle.CUDAPlace(0)
            refused = 0
        except RuntimeError as e:
            refused = int("worker process of a DataLoader" in str(e))
        return np.array([made.place == paddle.CPUPlace(), refused])


def test_workers_of_a_data_loader_use_the_cpu(current):
    ((batch,),) = paddle.io.DataLoader(WorkerPlaces(), batch_size=2, num_workers=1)
    assert batch.numpy().tolist() == [[1, 1], [1, 1]]
    assert paddle.to_tensor(np.ones(3)).place == paddle.CUDAPlace(0)
