"""yolo_box, yolov3_loss: values recorded from Paddle 1.8.5 and 2.6.2, gradients numerically."""

import numpy as np
import paddle
import pytest
from case import case, real, table

LOSS = {"class_num": 2, "anchors": [10, 13, 16, 30], "anchor_mask": [0, 1], "ignore_thresh": 0.9}
X, SIZE = real(2, 14, 2, 2), np.array([[40, 50]], "int32")
# The first two objects share an anchor and a cell, so that their gradients add up.
BOXES = np.array(
    [
        [[0.3, 0.3, 0.5, 0.5], [0.3, 0.4, 0.5, 0.6], [0.8, 0.9, 0.1, 0.1]],
        [[0.6, 0.6, 0.9, 0.8], [1.0, 1.0, 0.3, 0.4], [0.0, 0.0, 0.0, 0.0]],
    ]
)
LABELS, SCORES = np.array([[0, 1, 1], [1, 0, 0]], "int32"), real(2, 3, low=0.5, high=1.0)
BOX = {"class_num": 2, "anchors": [10, 13], "conf_thresh": 0.0}

test_yolo = table(
    case(
        "yolo_box",
        {
            "X": np.array(
                [
                    [
                        [[-1.38, 0.96]],
                        [[-0.95, 0.13]],
                        [[-1.94, 1.67]],
                        [[1.6, -1.87]],
                        [[1.83, -1.45]],
                        [[-0.86, 0.42]],
                        [[1.78, 1.41]],
                        [[-1.99, 0.08]],
                        [[0.21, -0.06]],
                        [[1.07, -1.36]],
                        [[1.06, -1.92]],
                        [[-1.46, -1.53]],
                        [[-0.76, 0.69]],
                        [[-0.12, 1.26]],
                    ]
                ]
            ),
            "ImgSize": np.array([[40, 50]], "int32"),
        },
        {"class_num": 2, "anchors": [10, 13, 16, 30], "conf_thresh": 0.3, "scale_x_y": 1.2},
        {
            "Boxes": np.array(
                [
                    [
                        [2.96892608227, 0.0, 4.09161318991, 39.0],
                        [0.0, 0.0, 0.0, 0.0],
                        [0.0, 0.0, 0.0, 0.0],
                        [0.0, 0.0, 0.0, 0.0],
                    ]
                ]
            ),
            "Scores": np.array([[[0.256235667966, 0.737406808807], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]]),
        },
        dtypes="float32",
    ),
    case(
        "yolo_box",
        {
            "X": np.array(
                [
                    [
                        [[1.11], [-1.05]],
                        [[1.3], [1.86]],
                        [[1.89], [-0.19]],
                        [[0.44], [1.1]],
                        [[0.57], [0.89]],
                        [[-1.86], [-0.81]],
                        [[-1.77], [1.43]],
                    ]
                ]
            ),
            "ImgSize": np.array([[40, 50]], "int32"),
        },
        {"class_num": 2, "anchors": [10, 13], "downsample_ratio": 16, "clip_bbox": False},
        {
            "Boxes": np.array(
                [
                    [
                        [-65.8211800693, 3.10095351045, 141.034091213, 28.3324458113],
                        [0.0400185730273, 12.8970900164, 25.8824915088, 61.7147879055],
                    ]
                ]
            ),
            "Scores": np.array([[[0.0860433491671, 0.0929670801503], [0.218260546627, 0.572004412978]]]),
        },
        dtypes="float32",
    ),
    case(
        "yolov3_loss",
        {
            "X": np.array(
                [
                    [
                        [[0.06, 1.09], [1.48, -1.97]],
                        [[-0.76, 1.83], [0.05, -0.73]],
                        [[0.16, -1.11], [1.23, -0.63]],
                        [[0.16, -1.98], [0.69, -1.16]],
                        [[1.73, -0.5], [1.01, 1.05]],
                        [[1.48, -1.56], [-0.8, -0.1]],
                        [[0.69, -0.97], [0.8, 0.63]],
                        [[-1.27, -0.71], [1.55, -1.67]],
                        [[0.99, -1.75], [0.93, 0.97]],
                        [[-0.37, 1.97], [-0.19, -1.24]],
                        [[-0.59, 0.86], [-0.57, -1.79]],
                        [[-0.74, 2.0], [-0.85, -0.15]],
                        [[0.94, 1.77], [-1.3, -1.15]],
                        [[-1.47, -1.17], [1.98, -1.01]],
                    ],
                    [
                        [[-1.56, 0.01], [-0.18, 0.94]],
                        [[0.48, 0.48], [-1.4, 0.15]],
                        [[-1.52, -1.39], [-0.2, -0.28]],
                        [[0.93, -1.71], [-0.88, -1.34]],
                        [[0.03, 0.32], [0.55, -1.14]],
                        [[-0.33, -0.13], [-1.67, 0.28]],
                        [[-1.09, -1.86], [1.86, -1.7]],
                        [[0.92, 0.01], [-1.63, 0.1]],
                        [[-0.26, 0.19], [1.74, 1.98]],
                        [[0.65, -0.58], [-0.24, 1.1]],
                        [[0.51, -1.61], [0.61, 1.87]],
                        [[-1.05, -0.43], [-1.67, 1.29]],
                        [[-0.84, -1.34], [-1.35, -0.89]],
                        [[-1.97, 1.0], [1.42, 1.7]],
                    ],
                ]
            ),
            "GTBox": np.array(
                [
                    [[0.3, 0.4, 0.2, 0.5], [0.7, 0.2, 0.0, 0.3], [0.8, 0.9, 0.4, 0.4]],
                    [[0.6, 0.6, 0.9, 0.8], [0.1, 0.1, 0.05, 0.06], [0.0, 0.0, 0.0, 0.0]],
                ]
            ),
            "GTLabel": np.array([[0, 1, 1], [1, 0, 0]], "int32"),
        },
        {"class_num": 2, "anchors": [10, 13, 16, 30, 33, 23], "anchor_mask": [1, 2], "ignore_thresh": 0.3},
        {
            "Loss": np.array([22.3867208517, 9.8351113566]),
            "ObjectnessMask": np.array(
                [
                    [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]],
                    [[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]],
                ]
            ),
            "GTMatchMask": np.array([[0, -1, 1], [1, -1, -1]], "int32"),
        },
        dtypes="float32",
    ),
    case(
        "yolov3_loss",
        {
            "X": np.array(
                [
                    [
                        [[1.4, -1.28], [-1.78, -0.55]],
                        [[-0.9, 0.12], [-0.78, -0.78]],
                        [[-1.55, -1.0], [1.67, -0.94]],
                        [[0.87, 1.46], [1.23, -1.16]],
                        [[-1.33, -1.81], [-1.84, -1.2]],
                        [[1.99, -0.51], [1.04, -0.11]],
                        [[0.04, 1.78], [-1.56, -0.14]],
                    ]
                ]
            ),
            "GTBox": np.array([[[0.3, 0.4, 0.2, 0.5], [0.8, 0.9, 0.4, 0.4]]]),
            "GTLabel": np.array([[0, 1]], "int32"),
            "GTScore": np.array([[0.6, 0.8]]),
        },
        {"class_num": 2, "anchors": [10, 13], "anchor_mask": [0], "use_label_smooth": False, "scale_x_y": 1.2},
        {
            "Loss": np.array([16.3229862013]),
            "ObjectnessMask": np.array([[[[0.6, 0.0], [0.0, 0.8]]]]),
            "GTMatchMask": np.zeros((1, 2), "int32"),
        },
        dtypes="float32",
        grad="X",
        grad_of="Loss",
    ),
    # a confidence of NaN passes the threshold
    case("yolo_box", [np.full((1, 7, 1, 1), np.nan), SIZE], BOX, {"Scores": np.full((1, 1, 2), np.nan)}),
    case("yolo_box", [np.zeros((0, 7, 1, 1)), SIZE[:0]], BOX, (np.zeros((0, 1, 4)), np.zeros((0, 1, 2)))),
    case("yolo_box", [np.zeros((1, 7, 0, 3)), SIZE], BOX, (np.zeros((1, 0, 4)), np.zeros((1, 0, 2)))),
    case(
        "yolov3_loss",
        [X[:, :, :0, :0], BOXES, LABELS],
        LOSS,
        (np.zeros(2), np.zeros((2, 2, 0, 0)), np.full((2, 3), -1, "int32")),
    ),
    case("yolov3_loss", [X[:0], BOXES[:0], LABELS[:0]], LOSS, {"Loss": np.zeros(0)}),
)


@pytest.mark.parametrize("scores", [None, SCORES])
def test_gradient_of_objects_in_one_cell(scores) -> None:
    # Only the network's output has a gradient.
    def loss(x):
        x = paddle.to_tensor(x, stop_gradient=False)
        more = None if scores is None else paddle.to_tensor(scores)
        out = paddle.vision.ops.yolo_loss(x, box, paddle.to_tensor(LABELS), LOSS["anchors"], [0, 1], 2, 0.9, 32, more)
        return x, (out * paddle.to_tensor([1.0, 0.5], "float64")).sum()

    box = paddle.to_tensor(BOXES, stop_gradient=False)
    x, out = loss(X)
    out.backward()
    assert box.grad is None
    want, step = np.zeros_like(X), 1e-5
    for at in np.ndindex(X.shape):
        d = np.zeros_like(X)
        d[at] = step
        want[at] = (float(loss(X + d)[1]) - float(loss(X - d)[1])) / (2 * step)
    np.testing.assert_allclose(x.gradient(), want, rtol=1e-6, atol=1e-7)


test_wrong = table(
    case("yolo_box", [X, SIZE], BOX, raises=ValueError, match="X"),
    case("yolo_box", [np.zeros((1, 7, 1, 1)), SIZE.astype("int64")], BOX, raises=ValueError, match="ImgSize"),
    case("yolo_box", [np.zeros((1, 7, 1, 1)), SIZE], {**BOX, "anchors": [1]}, raises=ValueError, match="pairs"),
    case("yolo_box", [np.zeros((1, 7, 1, 1)), SIZE], {**BOX, "class_num": 2**31 - 1}, raises=ValueError, match="X"),
    case("yolov3_loss", [X, BOXES, LABELS], {**LOSS, "anchor_mask": [0, 2]}, raises=ValueError, match="anchor_mask"),
    case("yolov3_loss", [X, BOXES, LABELS], {**LOSS, "anchor_mask": [0, -1]}, raises=ValueError, match="anchor_mask"),
    case("yolov3_loss", [X[..., :1], BOXES, LABELS], LOSS, raises=ValueError, match="wide"),
    case("yolov3_loss", [X, BOXES[:1], LABELS], LOSS, raises=ValueError, match="GTBox"),
)
