"""multiclass_nms, multiclass_nms2, multiclass_nms3: boxes recorded from Paddle 1.8.5 and 2.6.2."""

import numpy as np
from case import case, table
from detections import ALL, CORNERS, IMAGES, MARK, NMS, OF_CLASSES, PIXELS, SCORES

TWO = np.array([[[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]]])

test_nms = table(
    case(
        "multiclass_nms",
        {"BBoxes": IMAGES, "Scores": SCORES},
        NMS,
        {
            "Out": np.array(
                [
                    [1.0, 0.8, 0.12, 0.1, 0.52, 0.58],
                    [1.0, 0.75, 0.6, 0.55, 0.9, 0.95],
                    [2.0, 0.95, 0.6, 0.55, 0.9, 0.95],
                    [2.0, 0.9, 0.1, 0.5, 0.3, 0.9],
                    [2.0, 0.9, 0.5, 0.5, 0.6, 0.9],
                    [2.0, 0.65, 0.2, 0.22, 0.41, 0.4],
                ]
            )
        },
        dtypes="float32",
        out_lod={"Out": [[0, 4, 6]]},
    ),
    case(
        "multiclass_nms",
        {"BBoxes": IMAGES, "Scores": SCORES},
        {**NMS, "background_label": -1, "nms_top_k": -1, "nms_threshold": 0.9, "nms_eta": 0.5, "keep_top_k": -1},
        {
            "Out": np.array(
                [
                    [0.0, 0.9, 0.12, 0.1, 0.52, 0.58],
                    [0.0, 0.6, 0.1, 0.5, 0.3, 0.9],
                    [0.0, 0.3, 0.6, 0.55, 0.9, 0.95],
                    [1.0, 0.8, 0.12, 0.1, 0.52, 0.58],
                    [1.0, 0.75, 0.6, 0.55, 0.9, 0.95],
                    [2.0, 0.95, 0.6, 0.55, 0.9, 0.95],
                    [2.0, 0.9, 0.1, 0.5, 0.3, 0.9],
                    [2.0, 0.3, 0.1, 0.1, 0.5, 0.6],
                    [0.0, 0.5, 0.2, 0.2, 0.4, 0.4],
                    [0.0, 0.3, 0.5, 0.5, 0.6, 0.9],
                    [2.0, 0.9, 0.5, 0.5, 0.6, 0.9],
                    [2.0, 0.65, 0.2, 0.22, 0.41, 0.4],
                    [2.0, 0.3, 0.0, 0.0, 1.0, 1.0],
                ]
            )
        },
        dtypes="float32",
        out_lod={"Out": [[0, 8, 13]]},
    ),
    case(
        "multiclass_nms",
        {"BBoxes": IMAGES, "Scores": SCORES},
        {**NMS, "score_threshold": 2.0},
        MARK,
        static=False,
        out_lod={"Out": [[0, 1]]},
    ),
    case(
        "multiclass_nms",
        {"BBoxes": PIXELS[None], "Scores": np.array([[[0.5, 0.6, 0.7]]])},
        {**NMS, "background_label": -1, "nms_threshold": 0.76, "normalized": False},
        {"Out": np.array([[0.0, 0.7, 20.0, 18.0, 30.0, 33.0], [0.0, 0.6, 3.0, 3.0, 12.0, 14.0]])},
        dtypes="float32",
        out_lod={"Out": [[0, 2]]},
    ),
    case(
        "multiclass_nms",
        {"BBoxes": CORNERS, "Scores": np.array([[[0.5, 0.6, 0.7]]])},
        {**NMS, "background_label": -1, "nms_threshold": 0.3},
        {
            "Out": np.array(
                [[0.0, 0.7, 6.0, 6.0, 9.0, 6.0, 9.0, 9.0, 6.0, 9.0], [0.0, 0.6, 1.0, 0.0, 5.0, 1.0, 4.0, 5.0, 0.0, 4.0]]
            )
        },
        dtypes="float32",
        out_lod={"Out": [[0, 2]]},
    ),
    case(
        "multiclass_nms",
        {"BBoxes": OF_CLASSES, "Scores": SCORES[0].T},
        {**NMS, "keep_top_k": 2},
        {
            "Out": np.array(
                [
                    [1.0, 0.8, 0.2, 0.22, 0.41, 0.4],
                    [2.0, 0.3, 0.1, 0.1, 0.5, 0.6],
                    [2.0, 0.95, 0.6, 0.55, 0.9, 0.95],
                    [2.0, 0.9, 0.1, 0.5, 0.3, 0.9],
                ]
            )
        },
        dtypes="float32",
        lod={"BBoxes": [[0, 2, 2, 4]]},
        out_lod={"Out": [[0, 2, 2, 4]]},
    ),
    case(
        "multiclass_nms2",
        {"BBoxes": IMAGES, "Scores": SCORES},
        NMS,
        {
            "Out": np.array(
                [
                    [1.0, 0.8, 0.12, 0.1, 0.52, 0.58],
                    [1.0, 0.75, 0.6, 0.55, 0.9, 0.95],
                    [2.0, 0.95, 0.6, 0.55, 0.9, 0.95],
                    [2.0, 0.9, 0.1, 0.5, 0.3, 0.9],
                    [2.0, 0.9, 0.5, 0.5, 0.6, 0.9],
                    [2.0, 0.65, 0.2, 0.22, 0.41, 0.4],
                ]
            ),
            "Index": np.array([[1], [2], [2], [3], [6], [5]], "int32"),
        },
        dtypes="float32",
        out_lod={"Out": [[0, 4, 6]], "Index": [[0, 4, 6]]},
    ),
    case(
        "multiclass_nms2",
        {"BBoxes": OF_CLASSES, "Scores": SCORES[0].T},
        {**NMS, "keep_top_k": 2},
        {
            "Out": np.array(
                [
                    [1.0, 0.8, 0.2, 0.22, 0.41, 0.4],
                    [2.0, 0.3, 0.1, 0.1, 0.5, 0.6],
                    [2.0, 0.95, 0.6, 0.55, 0.9, 0.95],
                    [2.0, 0.9, 0.1, 0.5, 0.3, 0.9],
                ]
            ),
            "Index": np.array([[4], [2], [8], [11]], "int32"),
        },
        dtypes="float32",
        lod={"BBoxes": [[0, 2, 2, 4]]},
        out_lod={"Out": [[0, 2, 2, 4]], "Index": [[0, 2, 2, 4]]},
    ),
    case(
        "multiclass_nms3",
        {"BBoxes": OF_CLASSES, "Scores": SCORES[0].T, "RoisNum": np.array([1, 0, 3], "int32")},
        {**NMS, "keep_top_k": 2},
        {
            "Out": np.array(
                [
                    [1.0, 0.7, 0.2, 0.2, 0.4, 0.4],
                    [2.0, 0.3, 0.1, 0.1, 0.5, 0.6],
                    [2.0, 0.95, 0.6, 0.55, 0.9, 0.95],
                    [2.0, 0.9, 0.1, 0.5, 0.3, 0.9],
                ]
            ),
            "Index": np.array([[1], [2], [8], [11]], "int32"),
            "NmsRoisNum": np.array([2, 0, 2], "int32"),
        },
        dtypes="float32",
    ),
    # NaN exceeds no threshold; a box with NaN coordinates overlaps with every other box
    case("multiclass_nms", [TWO, np.array([[[np.nan, 0.5]]])], ALL, np.array([[0, 0.5, 0.5, 0.5, 1, 1]])),
    case(
        "multiclass_nms2",
        [TWO * np.nan, np.array([[[0.25, 0.5]]])],
        ALL,
        (np.array([[0, 0.5, np.nan, np.nan, np.nan, np.nan]]), np.array([[1]], "int32")),
    ),
    # no boxes at all, and some images without boxes
    case("multiclass_nms", [TWO[:, :0], np.zeros((1, 3, 0))], ALL, MARK, static=False, out_lod={"Out": [[0, 1]]}),
    case(
        "multiclass_nms2",
        [TWO[:, :0], np.zeros((1, 3, 0))],
        ALL,
        (np.zeros((0, 6)), np.zeros((0, 1), "int32")),
        out_lod={"Out": [[0, 0]], "Index": [[0, 0]]},
    ),
    case(
        "multiclass_nms3",
        [TWO[:0], np.zeros((0, 1, 2))],
        ALL,
        (np.zeros((0, 6)), np.zeros((0, 1), "int32"), np.zeros(0, "int32")),
        out_lod={"Out": [[0]]},
    ),
    case(
        "multiclass_nms3",
        [TWO, np.zeros((1, 2))],
        ALL,
        (np.zeros((0, 6)), np.zeros((0, 1), "int32"), np.zeros(3, "int32")),
        lod={"BBoxes": [[0, 0, 1, 1]]},
        out_lod={"Out": [[0, 0, 0, 0]]},
    ),
    case("multiclass_nms", [TWO, np.array([[[0.25, 0.5]]])], {**ALL, "keep_top_k": 0}, MARK, static=False),
)
test_wrong = table(
    case("multiclass_nms", [TWO, np.zeros((1, 2))], ALL, raises=ValueError, match="LoD"),
    case("multiclass_nms", [TWO, np.zeros((1, 1, 3))], ALL, raises=ValueError, match="Scores"),
    case("multiclass_nms", [TWO[..., :3], np.zeros((1, 1, 2))], ALL, raises=ValueError, match="last dimension"),
    case("multiclass_nms", [TWO.astype("float32"), np.zeros((1, 1, 2))], ALL, raises=ValueError, match="float64"),
    case("multiclass_nms3", [TWO, np.zeros((1, 2)), np.array([2], "int32")], ALL, raises=ValueError, match="RoisNum"),
)
