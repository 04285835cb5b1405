"""paddle.vision.transforms: results recorded from Paddle 2.6.2, and errors."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import paddle
import paddle.vision.transforms as T
import pytest
import vision_calls
from paddle.vision.transforms import functional as F

VALUES = json.loads((Path(__file__).parent / "vision_values.json").read_text())
HAS = {name: importlib.util.find_spec(name) is not None for name in ("PIL", "cv2")}
A = vision_calls.image("array")


def ready(kind, call):
    """Skips calls that require a package that is not installed."""
    if kind.startswith("pil") and not HAS["PIL"]:
        pytest.skip("Pillow is not installed")
    if kind in ("array", "gray") and call in vision_calls.OPENCV and not HAS["cv2"]:
        pytest.skip("OpenCV is not installed")


@pytest.mark.parametrize("call", vision_calls.CALLS, ids=lambda c: vision_calls.key(*c))
def test_as_paddle(call):
    kind, name, arguments = call
    ready(kind, (name, arguments))
    dtype, shape, numbers = VALUES[vision_calls.key(*call)]
    try:
        found = vision_calls.result(*call)
    except paddle._basics.missing.OperatorMissing:
        assert kind == "tensor" and (name, arguments) in vision_calls.TENSOR_LATER
        pytest.skip("an operator is missing")
    assert str(found.dtype) == dtype and list(found.shape) == shape
    expected = np.array(numbers, dtype).reshape(shape)
    if name in ("rotate", "RandomRotation", "ColorJitter") and kind == "array":
        # OpenCV releases round differently
        assert (np.abs(found.astype("int32") - expected.astype("int32")) > 6).mean() <= 0.05
    elif name in ("resize", "Resize", "RandomResizedCrop", "adjust_hue", "HueTransform"):
        np.testing.assert_allclose(found.astype("float64"), expected.astype("float64"), atol=1)
    else:
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


def test_bytes_of_tensors():
    """A uint8 Tensor is transformed like a float one, with integral results."""
    whole = paddle.to_tensor(np.ascontiguousarray(A.transpose(2, 0, 1)))
    floats = paddle.to_tensor((A.transpose(2, 0, 1) / 255).astype("float32"))
    for function, factor in (
        (F.adjust_brightness, 0.4),
        (F.adjust_contrast, 1.5),
        (F.adjust_saturation, 0.3),
        (F.adjust_hue, 0.2),
        (F.to_grayscale, 1),
    ):
        found = function(whole, factor).numpy()
        assert found.dtype == np.uint8
        assert np.abs(found / 255.0 - function(floats, factor).numpy()).max() < 2.1 / 255, function


def test_gradients():
    x = paddle.to_tensor(np.random.RandomState(0).rand(3, 4, 4).astype("float32"), stop_gradient=False)
    F.normalize(F.hflip(F.crop(x, 1, 1, 2, 2)), [0.5] * 3, [0.25] * 3).sum().backward()
    expected = np.zeros([3, 4, 4])
    expected[:, 1:3, 1:3] = 4
    np.testing.assert_allclose(x.grad, expected)


def test_keys_and_tuples():
    assert [np.shape(f) for f in T.Pad(1)((A, A, "label"))] == [(8, 7, 3), (6, 5, 3), ()]

    class Both(T.BaseTransform):
        def _get_params(self, inputs):
            return len(inputs)

        def _apply_image(self, image):
            return image + self.params

        def _apply_boxes(self, boxes):
            return boxes * 10

    assert Both(keys=("image", "boxes"))((1, 2, 3)) == (4, 20, 3)
    assert Both(keys=("image", "boxes"))(1) == 2
    with pytest.raises(ValueError, match="sequence"):
        Both(keys=3)
    with pytest.raises(NotImplementedError, match="depth is unsupported"):
        Both(keys=("depth",))


def test_compose(capsys):
    both = T.Compose([T.CenterCrop(4), T.RandomHorizontalFlip(1)])
    np.testing.assert_array_equal(both(A), A[1:5, 0:4][:, ::-1])
    assert str(both).startswith("Compose(\n    <paddle.vision")
    with pytest.raises(ValueError, match="does not fit"):
        T.Compose([T.RandomCrop(50)])(A)
    assert "fail to perform transform" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (TypeError, lambda: F.to_tensor(1)),
        (ValueError, lambda: F.to_tensor(A, data_format=1)),
        *(
            (TypeError, lambda f=f: f(1, 1))
            for f in (
                F.resize,
                F.pad,
                F.adjust_brightness,
                F.adjust_contrast,
                F.adjust_hue,
                F.adjust_saturation,
                F.rotate,
                F.center_crop,
            )
        ),
        *((TypeError, lambda f=f: f(1)) for f in (F.hflip, F.vflip, F.to_grayscale)),
        (TypeError, lambda: F.resize(A, "1")),
        (TypeError, lambda: F.resize(A, (1, 2, 3))),
        (TypeError, lambda: F.crop(1, 1, 1, 1, 1)),
        (TypeError, lambda: F.pad(A, "1")),
        (TypeError, lambda: F.pad(A, 1, {})),
        (TypeError, lambda: F.pad(A, 1, padding_mode=-1)),
        (AssertionError, lambda: F.pad(A, 1, padding_mode="round")),
        (ValueError, lambda: F.pad(A, [1.0, 2.0, 3.0])),
        (ValueError, lambda: F.adjust_hue(A, 0.6)),
        (ValueError, lambda: F.to_grayscale(A, 2)),
        (ValueError, lambda: T.ContrastTransform(-1.0)),
        (ValueError, lambda: T.SaturationTransform(-1.0)),
        (ValueError, lambda: T.HueTransform(-1.0)),
        (ValueError, lambda: T.HueTransform(0.7)),
        (ValueError, lambda: T.BrightnessTransform([-0.1, -0.2])),
        (TypeError, lambda: T.BrightnessTransform("0.1")),
        (ValueError, lambda: T.Pad([1.0, 2.0, 3.0])),
        (ValueError, lambda: T.RandomRotation(-2)),
        (ValueError, lambda: T.RandomRotation([1, 2, 3])),
        (TypeError, lambda: T.RandomResizedCrop(64)(1)),
        (AssertionError, lambda: T.Resize("large")),
        (TypeError, lambda: F.adjust_brightness(A.astype("float32"), 0.5)),
    ],
)
def test_errors(error, call):
    with pytest.raises(error):
        call()


@pytest.mark.skipif(HAS["cv2"], reason="OpenCV is installed")
def test_error_without_opencv():
    with pytest.raises(ImportError, match="pip install opencv-python"):
        F.resize(A, 3)


@pytest.mark.skipif(HAS["PIL"], reason="Pillow is installed")
def test_error_without_pillow(tmp_path):
    with pytest.raises(ImportError, match="pip install Pillow"):
        paddle.vision.image_load(str(tmp_path / "a.png"))


@pytest.mark.skipif(not HAS["PIL"], reason="Pillow is not installed")
@pytest.mark.parametrize(
    ("mode", "dtype", "shape"),
    [
        ("I", "int32", [1, 6, 5]),
        ("I;16", "int32", [1, 6, 5]),
        ("F", "float32", [1, 6, 5]),
        ("1", "float32", [1, 6, 5]),
        ("L", "float32", [1, 6, 5]),
        ("YCbCr", "float32", [3, 6, 5]),
        ("RGBA", "float32", [4, 6, 5]),
    ],
)
def test_modes_of_pillow(mode, dtype, shape):
    source = vision_calls.image("pil_gray" if shape[0] == 1 else "pil")
    found = F.to_tensor(source.convert(mode)).numpy()
    assert str(found.dtype) == dtype and list(found.shape) == shape
    assert dtype == "int32" or mode == "F" or 0 <= found.min() <= found.max() <= 1


@pytest.mark.skipif(not HAS["PIL"], reason="Pillow is not installed")
def test_palette_images_keep_their_mode():
    palette = vision_calls.image("pil").convert("P")
    for mode in ("constant", "reflect"):
        assert F.pad(palette, [1, 2], padding_mode=mode).getpalette()[:30] == palette.getpalette()[:30]


def test_backend(tmp_path):
    with pytest.raises(ValueError, match="'pil', 'cv2'"):
        paddle.vision.set_image_backend(1)
    with pytest.raises(ValueError, match="'pil', 'cv2'"):
        paddle.vision.image_load("a.png", backend=1)
    if HAS["PIL"]:
        path = str(tmp_path / "a.png")
        vision_calls.image("pil").save(path)
        np.testing.assert_array_equal(np.array(paddle.vision.image_load(path)), A)
        if HAS["cv2"]:
            np.testing.assert_array_equal(paddle.vision.image_load(path, "cv2"), A[..., ::-1])
            with pytest.raises(FileNotFoundError, match="nothing.png"):
                paddle.vision.image_load("nothing.png", "cv2")
