"""CupyMachine, with a stand-in for CuPy."""

import sys

import numpy as np
from fake_cupy import Cupy
from paddle import _cuda


def test_uploads_are_staged_in_pinned_memory(built, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", Cupy(built))
    machine = _cuda.CupyMachine()
    memory, host = machine.xp.empty(12, "uint8"), np.arange(3, dtype="float32")
    for _ in range(4):
        machine.upload(memory, host)
        assert 1 <= len(machine._staged) <= 3  # until the device has read them
    assert machine.download(memory).view("float32").tolist() == [0.0, 1.0, 2.0]
