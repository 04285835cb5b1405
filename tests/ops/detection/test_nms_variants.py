"""matrix_nms, locality_aware_nms, retinanet_detection_output: boxes recorded from Paddle 1.8.5 and 2.6.2."""

import numpy as np
from case import case, table
from detections import ALL, CORNERS, IMAGES, MARK, NMS, PIXELS, SCORES

RETINA = {"score_threshold": 0.0, "nms_top_k": -1, "nms_threshold": 0.5, "nms_eta": 1.0, "keep_top_k": -1}
TWO = np.array([[[0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.5, 0.5]]])
ANCHORS, INFO = np.array([[0.0, 0.0, 9.0, 9.0]]), np.array([[20.0, 20.0, 1.0]])

test_nms = table(
    case(
        "matrix_nms",
        {"BBoxes": IMAGES, "Scores": SCORES},
        {"score_threshold": 0.15, "post_threshold": 0.1, "nms_top_k": 3, "keep_top_k": 5},
        {
            "Out": np.array(
                [
                    [2.0, 0.95, 0.6, 0.55, 0.9, 0.95],
                    [2.0, 0.9, 0.1, 0.5, 0.3, 0.9],
                    [1.0, 0.8, 0.12, 0.1, 0.52, 0.58],
                    [1.0, 0.75, 0.6, 0.55, 0.9, 0.95],
                    [2.0, 0.276923076923, 0.1, 0.1, 0.5, 0.6],
                    [2.0, 0.9, 0.5, 0.5, 0.6, 0.9],
                    [2.0, 0.65, 0.2, 0.22, 0.41, 0.4],
                ]
            ),
            "Index": np.array([[2], [3], [1], [2], [0], [6], [5]], "int32"),
            "RoisNum": np.array([5, 2], "int32"),
        },
        dtypes="float32",
    ),
    case(
        "matrix_nms",
        {"BBoxes": IMAGES, "Scores": SCORES},
        {
            "background_label": -1,
            "score_threshold": 0.15,
            "nms_top_k": -1,
            "keep_top_k": -1,
            "normalized": False,
            "use_gaussian": True,
            "gaussian_sigma": 0.5,
        },
        {
            "Out": np.array(
                [
                    [2.0, 0.95, 0.6, 0.55, 0.9, 0.95],
                    [0.0, 0.9, 0.12, 0.1, 0.52, 0.58],
                    [2.0, 0.9, 0.1, 0.5, 0.3, 0.9],
                    [1.0, 0.8, 0.12, 0.1, 0.52, 0.58],
                    [1.0, 0.75, 0.6, 0.55, 0.9, 0.95],
                    [0.0, 0.525653396141, 0.1, 0.5, 0.3, 0.9],
                    [1.0, 0.441946430756, 0.1, 0.1, 0.5, 0.6],
                    [0.0, 0.3, 0.6, 0.55, 0.9, 0.95],
                    [2.0, 0.259776214579, 0.1, 0.1, 0.5, 0.6],
                    [2.0, 0.145822136555, 0.12, 0.1, 0.52, 0.58],
                    [0.0, 0.126270408787, 0.1, 0.1, 0.5, 0.6],
                    [2.0, 0.9, 0.5, 0.5, 0.6, 0.9],
                    [2.0, 0.65, 0.2, 0.22, 0.41, 0.4],
                    [0.0, 0.5, 0.2, 0.2, 0.4, 0.4],
                    [2.0, 0.372890445586, 0.2, 0.2, 0.4, 0.4],
                    [0.0, 0.3, 0.5, 0.5, 0.6, 0.9],
                    [2.0, 0.278570167246, 0.0, 0.0, 1.0, 1.0],
                    [0.0, 0.248593630391, 0.2, 0.22, 0.41, 0.4],
                    [0.0, 0.18571344483, 0.0, 0.0, 1.0, 1.0],
                ]
            ),
            "Index": np.array(
                [[2], [1], [3], [1], [2], [3], [0], [2], [0], [1], [0], [6], [5], [4], [4], [6], [7], [5], [7]], "int32"
            ),
            "RoisNum": np.array([11, 8], "int32"),
        },
        dtypes="float32",
    ),
    case(
        "locality_aware_nms",
        {"BBoxes": IMAGES[:1], "Scores": np.array([[[0.7, 0.8, 0.75, 0.1]]])},
        {**NMS, "background_label": -1, "nms_threshold": 0.3},
        {
            "Out": np.array(
                [[0.0, 1.5, 0.110666666667, 0.1, 0.510666666667, 0.589333333333], [0.0, 0.75, 0.6, 0.55, 0.9, 0.95]]
            )
        },
        dtypes="float32",
        out_lod={"Out": [[0, 2]]},
    ),
    case(
        "locality_aware_nms",
        {"BBoxes": CORNERS, "Scores": np.array([[[0.5, 0.6, 0.7]]])},
        {**NMS, "background_label": -1, "nms_threshold": 0.4},
        {
            "Out": np.array(
                [
                    [0.0, 1.1, 0.545454545455, 0.0, 4.54545454545, 0.545454545455, 4.0, 4.54545454545, 0.0, 4.0],
                    [0.0, 0.7, 6.0, 6.0, 9.0, 6.0, 9.0, 9.0, 6.0, 9.0],
                ]
            )
        },
        dtypes="float32",
        out_lod={"Out": [[0, 2]]},
    ),
    case(
        "retinanet_detection_output",
        {
            "BBoxes": [
                np.array(
                    [
                        [[1.49, 1.87, 1.48, 0.12], [-1.07, -1.95, -0.28, -0.39]],
                        [[0.09, -0.09, 0.22, 0.17], [1.04, 0.85, 0.48, -0.3]],
                    ]
                ),
                np.array([[[-1.96, 0.01, -0.02, -1.46]], [[-1.43, -1.13, -0.33, -1.01]]]),
            ],
            "Scores": [
                np.array([[[0.74, 0.07], [0.62, 0.72]], [[0.5, 0.25], [0.23, 0.73]]]),
                np.array([[[0.21, 0.07]], [[0.47, 0.7]]]),
            ],
            "Anchors": [PIXELS[:2], PIXELS[2:]],
            "ImInfo": np.array([[40.0, 60.0, 2.0], [30.0, 33.0, 1.0]]),
        },
        {"score_threshold": 0.2, "nms_top_k": 3, "nms_threshold": 0.4, "nms_eta": 1.0, "keep_top_k": 3},
        {
            "Out": np.array(
                [
                    [1.0, 0.74, 0.0, 13.2406352324, 23.5256006225, 19.0],
                    [2.0, 0.72, 0.0, 0.0, 0.0394593536393, 0.0],
                    [1.0, 0.62, 0.0, 0.0, 0.0394593536393, 0.0],
                    [2.0, 0.73, 10.319627989, 14.7550906759, 25.480372011, 22.6449093241],
                    [2.0, 0.7, 5.81591946612, 5.00624816343, 12.7240805339, 9.83375183657],
                    [1.0, 0.5, 1.63657798177, 0.625518466418, 14.3434220182, 15.0344815336],
                ]
            )
        },
        dtypes="float32",
        out_lod={"Out": [[0, 3, 6]]},
    ),
    # equal boxes: the decay of the second is 0 / 1, of a third 0 / 0, which Paddle treats as 1
    case(
        "matrix_nms",
        [TWO, np.array([[[0.25, 0.5]]])],
        ALL,
        (np.array([[0, 0.5, 0, 0, 0.5, 0.5]]), np.array([[1]], "int32"), np.array([1], "int32")),
    ),
    case("matrix_nms", [TWO, np.array([[[np.nan, 0.5]]])], ALL, {"Index": np.array([[1]], "int32")}),
    case(
        "matrix_nms",
        [TWO[:, :0], np.zeros((1, 2, 0))],
        ALL,
        (np.zeros((0, 6)), np.zeros((0, 1), "int32"), np.zeros(1, "int32")),
        out_lod={"Out": [[0, 0]]},
    ),
    case("locality_aware_nms", [TWO[:, :0], np.zeros((1, 1, 0))], ALL, MARK, static=False, out_lod={"Out": [[0, 1]]}),
    case("locality_aware_nms", [TWO, np.array([[[0.25, 0.5]]])], ALL, np.array([[0, 0.75, 0, 0, 0.5, 0.5]])),
    case(
        "retinanet_detection_output",
        [[np.zeros((1, 1, 4))], [np.array([[[-0.5]]])], [ANCHORS], INFO],
        RETINA,
        np.zeros((0, 6)),
        out_lod={"Out": [[0, 0]]},
    ),
    case(
        "retinanet_detection_output",
        [[np.zeros((1, 1, 4))], [np.array([[[0.5]]])], [ANCHORS], INFO],
        RETINA,
        np.array([[1, 0.5, 0, 0, 9, 9]]),
    ),
)
test_wrong = table(
    case("matrix_nms", [TWO, np.zeros((1, 1, 3))], ALL, raises=ValueError, match="Scores"),
    case("matrix_nms", [np.zeros((1, 2, 8)), np.zeros((1, 1, 2))], ALL, raises=ValueError, match="last dimension"),
    case("locality_aware_nms", [TWO, np.zeros((1, 2))], ALL, raises=ValueError, match="Scores"),
    case(
        "retinanet_detection_output",
        [[np.zeros((1, 1, 4))] * 2, [np.zeros((1, 1, 1))], [ANCHORS], INFO],
        RETINA,
        raises=ValueError,
        match="levels",
    ),
    case(
        "retinanet_detection_output",
        [[np.zeros((1, 2, 4))], [np.zeros((1, 1, 1))], [ANCHORS], INFO],
        RETINA,
        raises=ValueError,
        match="level 0",
    ),
)
