"""Calls of paddle.vision.transforms whose results were recorded from Paddle 2.6.2 (vision_values.json).

    python tests/api/vision_calls.py tests/api/vision_values.json

writes that file, with a Python that has Paddle 2.6.2, Pillow and OpenCV 4.11.
"""

import json
import random
import sys

import numpy as np


def image(kind):
    """A small image: "array", "gray" (arrays), "pil", "pil_gray", "tensor"."""
    pixels = (np.arange(90) * 37 % 256).astype("uint8").reshape(6, 5, 3)
    if kind in ("gray", "pil_gray"):
        pixels = np.ascontiguousarray(pixels[:, :, 0])
    if kind.startswith("pil"):
        from PIL import Image

        return Image.fromarray(pixels)
    if kind == "tensor":
        import paddle

        return paddle.to_tensor((pixels.transpose(2, 0, 1) / 255).astype("float32"))
    return pixels


# function or transform: arguments. Calls for arrays that require OpenCV are in a separate table.
NUMPY = [
    ("pad", (2,)),
    ("pad", ([1, 2], 7)),
    ("pad", ((1, 2, 3, 0), (7, 8, 9))),
    *(("pad", ([2, 1], 0, mode)) for mode in ("edge", "reflect", "symmetric")),
    ("center_crop", (3,)),
    ("center_crop", ((3, 4),)),
    ("hflip", ()),
    ("vflip", ()),
    *(
        (name, (factor,))
        for name in ("adjust_brightness", "adjust_contrast", "adjust_saturation")
        for factor in (0, 0.4, 1, 1.6)
    ),
    ("to_grayscale", (1,)),
    ("to_grayscale", (3,)),
    ("to_tensor", ()),
    ("to_tensor", ("HWC",)),
    ("normalize", ([1, 2, 3], [4, 5, 6], "HWC")),
    ("normalize", ([1, 2, 3], [4, 5, 6], "HWC", True)),
    ("RandomCrop", (4, 1)),
    ("RandomCrop", ((7, 9), None, True)),
    ("RandomHorizontalFlip", ()),
    ("RandomVerticalFlip", ()),
    ("Transpose", ()),
    ("BrightnessTransform", (0.4,)),
    ("ContrastTransform", (0.4,)),
    ("SaturationTransform", (0.4,)),
    ("CenterCrop", (3,)),
    ("Pad", (1,)),
    ("Grayscale", (3,)),
]
OPENCV = [
    *(("resize", (size, how)) for size in (4, (9, 4)) for how in ("nearest", "bilinear", "bicubic")),
    *(("adjust_hue", (factor,)) for factor in (-0.5, -0.2, 0, 0.3)),
    ("rotate", (30,)),
    ("rotate", (30, "bilinear")),
    ("rotate", (-100, "nearest", True)),
    ("rotate", (45, "nearest", True, (1, 2), 9)),
    ("RandomResizedCrop", (4,)),
    ("RandomRotation", (40,)),
    ("ColorJitter", (0.4, 0.4, 0.4, 0.4)),
    ("HueTransform", (0.2,)),
    ("Resize", (4,)),
]
TENSOR = [
    ("center_crop", (3,)),
    ("hflip", ()),
    ("vflip", ()),
    ("crop", (1, 2, 3, 2)),
    *(
        (name, (factor,))
        for name in ("adjust_brightness", "adjust_contrast", "adjust_saturation")
        for factor in (0, 0.4, 1, 1.6)
    ),
    *(("adjust_hue", (factor,)) for factor in (-0.5, -0.2, 0, 0.3)),
    ("to_grayscale", (1,)),
    ("to_grayscale", (3,)),
    ("normalize", ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])),
]
# requires further operators
TENSOR_LATER = [
    ("resize", (4,)),
    ("resize", ((9, 4), "nearest")),
    ("pad", (2, 0.5)),
    ("pad", ((1, 2), 0, "edge")),
    ("rotate", (30,)),
    ("rotate", (30, "bilinear", True, None, [0.1, 0.2, 0.3])),
]
CALLS = [(kind, *call) for kind in ("array", "pil") for call in NUMPY + OPENCV]
CALLS += [("tensor", *call) for call in TENSOR + TENSOR_LATER]
CALLS += [
    (kind, name, arguments)
    for kind in ("gray", "pil_gray")
    for name, arguments in NUMPY + OPENCV
    if name in ("pad", "hflip", "vflip", "to_tensor", "adjust_brightness", "resize", "Transpose")
    and (len(arguments) < 2 or not isinstance(arguments[1], tuple))
]


def key(kind, name, arguments):
    return f"{kind} {name} {json.dumps(arguments)}"


def result(kind, name, arguments):
    """The result of a call as an array, with fixed seeds."""
    import paddle

    random.seed(5)
    np.random.seed(5)
    transforms = paddle.vision.transforms
    if name[0].isupper():
        found = getattr(transforms, name)(*arguments)(image(kind))
    else:
        found = getattr(transforms.functional, name)(image(kind), *arguments)
    return found.numpy() if isinstance(found, paddle.Tensor) else np.array(found)


if __name__ == "__main__":
    values = {}
    for call in CALLS:
        array = result(*call)
        numbers = array.reshape(-1).tolist()
        if array.dtype.kind == "f":
            numbers = [round(n, 6) for n in numbers]
        values[key(*call)] = [str(array.dtype), list(array.shape), numbers]
    with open(sys.argv[1], "w") as file:
        file.write(
            "{\n"
            + ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in values.items())
            + "\n}\n"
        )
