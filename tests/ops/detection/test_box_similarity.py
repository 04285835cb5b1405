"""iou_similarity, polygon_box_transform: values recorded from Paddle 1.8.5."""

import numpy as np
from case import case, table
from detections import BOXES, OTHER, PIXELS

test_similarity = table(
    case(
        "iou_similarity",
        {"X": BOXES[:3], "Y": OTHER},
        {},
        {
            "Out": np.array(
                [
                    [0.1999999999, 0.188999999905, 0.0, 0.19999999998],
                    [0.208333333225, 0.196874999897, 0.00694444444143, 0.191999999981],
                    [0.0, 0.0, 0.0, 0.119999999988],
                ]
            )
        },
        dtypes="float32",
        lod={"X": [[0, 1, 3]]},
        out_lod={"Out": [[0, 1, 3]]},
    ),
    case(
        "iou_similarity",
        {"X": PIXELS, "Y": PIXELS[1:]},
        {"box_normalized": False},
        {"Out": np.array([[0.83916083916, 0.0], [0.999999999999, 0.0], [0.0, 0.999999999999]])},
        dtypes="float32",
    ),
    case(
        "polygon_box_transform",
        {
            "Input": np.array(
                [
                    [
                        [[1.57, -0.67, 1.28], [-1.83, -1.57, 0.38]],
                        [[0.12, -0.32, -0.66], [0.49, -0.25, 0.94]],
                        [[0.07, 0.32, 0.58], [1.96, 1.28, -0.35]],
                        [[1.51, 1.3, -1.78], [0.87, 1.21, 0.95]],
                    ]
                ]
            )
        },
        {},
        {
            "Output": np.array(
                [
                    [
                        [[-1.57, 4.67, 6.72], [1.83, 5.57, 7.62]],
                        [[-0.12, 0.32, 0.66], [3.51, 4.25, 3.06]],
                        [[-0.07, 3.68, 7.42], [-1.96, 2.72, 8.35]],
                        [[-1.51, -1.3, 1.78], [3.13, 2.79, 3.05]],
                    ]
                ]
            )
        },
        dtypes="float32",
    ),
    case("iou_similarity", [np.zeros((0, 4)), np.zeros((3, 4))], {}, np.zeros((0, 3))),
    case("iou_similarity", [np.zeros((2, 4)), np.zeros((0, 4))], {}, np.zeros((2, 0))),
    # boxes with zero area: no division by zero
    case("iou_similarity", [np.zeros((1, 4)), np.zeros((1, 4))], {}, np.zeros((1, 1))),
    case("polygon_box_transform", [np.zeros((1, 2, 0, 3))], {}, np.zeros((1, 2, 0, 3))),
    case("iou_similarity", [np.zeros((1, 5)), np.zeros((1, 4))], raises=ValueError, match="X"),
    case("polygon_box_transform", [np.zeros((1, 3, 1, 1))], raises=ValueError, match="even"),
)
