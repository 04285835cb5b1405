"""detection_map: values recorded from Paddle 1.8.5, with states over batches."""

import numpy as np
from case import case, table

FOUND, LABEL = np.array([[1, 0.5, 0.1, 0.1, 0.5, 0.5]]), np.array([[1, 0.1, 0.1, 0.5, 0.5]])
ONE = {"DetectRes": [[0, 1]], "Label": [[0, 1]]}
DETECTED = np.array(
    [
        [1, 0.3, 0.1, 0.0, 0.4, 0.3],
        [1, 0.7, 0.0, 0.1, 0.2, 0.3],
        [1, 0.9, 0.7, 0.6, 0.8, 0.8],
        [2, 0.8, 0.2, 0.1, 0.4, 0.4],
        [2, 0.1, 0.4, 0.3, 0.7, 0.5],
        [1, 0.2, 0.8, 0.1, 1.0, 0.3],
        [3, 0.2, 0.8, 0.1, 1.0, 0.3],
    ]
)
# Class, difficult, box.
OBJECTS = np.array(
    [[1, 0, 0.1, 0.1, 0.3, 0.3], [1, 1, 0.6, 0.6, 0.8, 0.8], [2, 0, 0.3, 0.3, 0.6, 0.5], [1, 0, 0.7, 0.1, 0.9, 0.3]]
)

test_map = table(
    case(
        "detection_map",
        {"DetectRes": DETECTED.astype("float32"), "Label": OBJECTS.astype("float32")},
        {"class_num": 4, "overlap_threshold": 0.3},
        {
            "AccumPosCount": np.array([[0], [3], [1], [0]], "int32"),
            "AccumTruePos": np.array(
                [
                    [0.899999976158, 1.0],
                    [0.699999988079, 1.0],
                    [0.300000011921, 0.0],
                    [0.20000000298, 1.0],
                    [0.800000011921, 0.0],
                    [0.10000000149, 1.0],
                    [0.20000000298, 0.0],
                ],
                "float32",
            ),
            "AccumFalsePos": np.array(
                [
                    [0.899999976158, 0.0],
                    [0.699999988079, 0.0],
                    [0.300000011921, 1.0],
                    [0.20000000298, 0.0],
                    [0.800000011921, 1.0],
                    [0.10000000149, 0.0],
                    [0.20000000298, 1.0],
                ],
                "float32",
            ),
            "MAP": np.array([0.70833337307], "float32"),
        },
        lod={"DetectRes": [[0, 3, 3, 7]], "Label": [[0, 2, 2, 4]]},
        out_lod={"AccumTruePos": [[0, 0, 4, 6, 7]], "AccumFalsePos": [[0, 0, 4, 6, 7]]},
    ),
    case(
        "detection_map",
        {"DetectRes": DETECTED.astype("float32"), "Label": OBJECTS.astype("float32")},
        {"class_num": 4, "overlap_threshold": 0.3, "ap_type": "11point", "evaluate_difficult": False},
        {
            "AccumPosCount": np.array([[0], [2], [1], [0]], "int32"),
            "AccumTruePos": np.array(
                [
                    [0.699999988079, 1.0],
                    [0.300000011921, 0.0],
                    [0.20000000298, 1.0],
                    [0.800000011921, 0.0],
                    [0.10000000149, 1.0],
                    [0.20000000298, 0.0],
                ],
                "float32",
            ),
            "AccumFalsePos": np.array(
                [
                    [0.699999988079, 0.0],
                    [0.300000011921, 1.0],
                    [0.20000000298, 0.0],
                    [0.800000011921, 1.0],
                    [0.10000000149, 0.0],
                    [0.20000000298, 1.0],
                ],
                "float32",
            ),
            "MAP": np.array([0.674242377281], "float32"),
        },
        lod={"DetectRes": [[0, 3, 3, 7]], "Label": [[0, 2, 2, 4]]},
        out_lod={"AccumTruePos": [[0, 0, 3, 5, 6]], "AccumFalsePos": [[0, 0, 3, 5, 6]]},
    ),
    case(
        "detection_map",
        {
            "DetectRes": np.array(
                [[1, 0.3, 0.1, 0.0, 0.4, 0.3], [1, 0.7, 0.0, 0.1, 0.2, 0.3], [1, 0.9, 0.7, 0.6, 0.8, 0.8]], "float32"
            ),
            "Label": np.array([[1, 0.1, 0.1, 0.3, 0.3], [1, 0.6, 0.6, 0.8, 0.8]], "float32"),
            "HasState": np.array([1], "int32"),
            "PosCount": np.array([[0], [2], [1], [0]], "int32"),
            "TruePos": np.array([[0.4, 1], [0.3, 0], [0.5, 1]], "float32"),
            "FalsePos": np.array([[0.4, 0], [0.3, 1], [0.5, 0]], "float32"),
        },
        {"class_num": 4, "overlap_threshold": 0.3},
        {
            "AccumPosCount": np.array([[0], [4], [1], [0]], "int32"),
            "AccumTruePos": np.array(
                [
                    [0.40000000596, 1.0],
                    [0.300000011921, 0.0],
                    [0.899999976158, 1.0],
                    [0.699999988079, 1.0],
                    [0.300000011921, 0.0],
                    [0.5, 1.0],
                ],
                "float32",
            ),
            "AccumFalsePos": np.array(
                [
                    [0.40000000596, 0.0],
                    [0.300000011921, 1.0],
                    [0.899999976158, 0.0],
                    [0.699999988079, 0.0],
                    [0.300000011921, 1.0],
                    [0.5, 0.0],
                ],
                "float32",
            ),
            "MAP": np.array([0.875], "float32"),
        },
        lod={"DetectRes": [[0, 3]], "Label": [[0, 2]], "TruePos": [[0, 0, 2, 3, 3]], "FalsePos": [[0, 0, 2, 3, 3]]},
        out_lod={"AccumTruePos": [[0, 0, 5, 6, 6]], "AccumFalsePos": [[0, 0, 5, 6, 6]]},
    ),
    case(
        "detection_map",
        [FOUND, LABEL],
        {"class_num": 2},
        {"MAP": np.ones(1), "AccumTruePos": np.array([[0.5, 1.0]])},
        dtypes="float32",
        lod=ONE,
        out_lod={"AccumTruePos": [[0, 0, 1]]},
    ),
    # images without objects, or without detections
    case(
        "detection_map",
        [FOUND, LABEL[:0]],
        {"class_num": 2},
        {"MAP": np.zeros(1), "AccumFalsePos": np.array([[0.5, 1.0]])},
        lod={"DetectRes": [[0, 1]], "Label": [[0, 0]]},
    ),
    case(
        "detection_map",
        [FOUND[:0], LABEL],
        {"class_num": 2},
        {"MAP": np.zeros(1), "AccumTruePos": np.zeros((0, 2))},
        lod={"DetectRes": [[0, 0]], "Label": [[0, 1]]},
    ),
)
test_wrong = table(
    case("detection_map", [FOUND, LABEL], {"class_num": 2}, raises=ValueError, match="LoD"),
    case("detection_map", [FOUND, LABEL], {"class_num": 2, "ap_type": "no"}, lod=ONE, raises=ValueError, match="'no'"),
    case("detection_map", [FOUND, LABEL], {"class_num": 2**31 - 1}, lod=ONE, raises=ValueError, match="class_num"),
    case("detection_map", [FOUND, LABEL], {"class_num": -1}, lod=ONE, raises=ValueError, match="class_num"),
    case("detection_map", [FOUND[:, :5], LABEL], {"class_num": 2}, lod=ONE, raises=ValueError, match="DetectRes"),
)
