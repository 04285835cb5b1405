"""Files in the safetensors format: written and read here, and by the public package unmodified."""

from __future__ import annotations

import json

import numpy as np
import paddle
import pytest


def state():
    return {
        "weight": paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]),
        "steps": paddle.to_tensor([7], dtype="int64"),
        "half": paddle.ones([3]).astype("float16"),
        "flag": np.array([True, False]),
        "empty": np.zeros((0, 2), "float64"),
        "scalar": np.array(2.5, "float32"),
        "bits": paddle.to_tensor([1.5]).astype("bfloat16"),
    }


def test_round_trip(tmp_path):
    path = str(tmp_path / "new" / "a.safetensors")
    saved = state()
    paddle.save(saved, path)
    got = paddle.load(path)
    assert set(got) == set(saved)
    for name, value in saved.items():
        want = np.asarray(value.numpy() if isinstance(value, paddle.Tensor) else value)
        assert got[name].dtype == want.dtype and got[name].shape == want.shape
        np.testing.assert_array_equal(got[name], want)
    got["weight"][0, 0] = 9  # writable


def test_a_layer(tmp_path):
    path = tmp_path / "layer.safetensors"
    first, second = paddle.nn.Linear(2, 3), paddle.nn.Linear(2, 3)
    paddle.save(first.state_dict(), path)
    second.set_state_dict(paddle.load(path))
    np.testing.assert_array_equal(first.weight.numpy(), second.weight.numpy())


def test_the_format(tmp_path):
    path = str(tmp_path / "a.safetensors")
    paddle.save({"b": paddle.ones([2]), "a": np.arange(2, dtype="float64")}, path)
    data = open(path, "rb").read()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert length % 8 == 0 and header["a"] == {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}
    assert header["b"]["data_offsets"] == [16, 24] and len(data) == 8 + length + 24


def damaged(entry, data=b"\0" * 8):
    text = entry if isinstance(entry, bytes) else json.dumps(entry).encode()
    return len(text).to_bytes(8, "little") + text + data


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("content", "kind", "text"),
    [
        (b"", ValueError, "its header has 0 bytes"),
        (b"\xff" * 20, ValueError, "its header has"),
        (damaged(b"{nothing"), ValueError, "no JSON"),
        (damaged(b"[1]"), ValueError, "no JSON object"),
        (damaged(b"[" * 5000), ValueError, "no JSON"),
        (damaged({"w": 3}), ValueError, "'w' lacks dtype"),
        (damaged({"w": {**GOOD, "shape": [3]}}), ValueError, "'w' of shape"),
        (damaged({"w": {**GOOD, "data_offsets": [0, 80]}}), ValueError, "data_offsets"),
        (damaged({"w": {**GOOD, "data_offsets": [-8, 0]}}), ValueError, "data_offsets"),
        (damaged({"w": {**GOOD, "shape": [-2]}}), ValueError, "shape"),
        (damaged({"w": {**GOOD, "shape": [True, 2]}}), ValueError, "shape"),
        (damaged({"w": {**GOOD, "dtype": "F8_E4M3"}}), TypeError, "F8_E4M3"),
    ],
)
def test_damaged_files(tmp_path, content, kind, text):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(kind, match=f"a.safetensors.*{text}"):
        paddle.load(str(path))


def test_what_cannot_be_saved(tmp_path):
    path = str(tmp_path / "a.safetensors")
    for obj, text in (
        ({"lr": 0.1}, r"obj\['lr'\] is a float"),
        ({3: np.ones(1)}, "names in a safetensors file must be str, got int"),
        ({"w": np.array(["a"])}, "which safetensors does not have"),
        ({"w": np.ones(1, "complex128")}, "complex128"),
    ):
        with pytest.raises(TypeError, match=text):
            paddle.save(obj, path)
    assert not (tmp_path / "a.safetensors").exists()


def test_the_public_package(tmp_path):
    public = pytest.importorskip("safetensors.paddle")
    saved = {name: v for name, v in state().items() if isinstance(v, paddle.Tensor)}
    ours, theirs = str(tmp_path / "ours.safetensors"), str(tmp_path / "theirs.safetensors")
    public.save_file(dict(saved), theirs)
    for name, value in paddle.load(theirs).items():
        np.testing.assert_array_equal(value, saved[name].numpy())
    del saved["bits"]  # the package reads bfloat16 from Paddle 3.2 on
    paddle.save(saved, ours)
    for read in (public.load_file(ours), public.load(open(ours, "rb").read()), public.load(public.save(dict(saved)))):
        assert set(read) == set(saved)
        for name, value in read.items():
            assert isinstance(value, paddle.Tensor) and value.dtype == saved[name].dtype
            np.testing.assert_array_equal(value.numpy(), saved[name].numpy())


def test_texts_of_types():
    assert str(paddle.float32) == "VarType.FP32" and str(paddle.float32).split(".")[-1] == "float32"
    with pytest.raises(TypeError, match="paddle.float8_e5m2"):
        paddle.ones([1], paddle.float8_e5m2)
