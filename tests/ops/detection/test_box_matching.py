"""bipartite_match, target_assign, mine_hard_examples: values recorded from Paddle 1.8.5."""

import numpy as np
from case import case, table

X, ROWS = np.zeros((2, 1, 1), "float32"), np.array([[0, -1]], "int32")
LOSS, DIST = np.array([[0.5, 0.25]]), np.array([[0.25, 0.125]])


def greedy(dist):
    """Repeatedly matches the most similar remaining pair."""
    rows, found = np.full((1, dist.shape[1]), -1, "int32"), np.zeros((1, dist.shape[1]))
    for k in np.argsort(-dist, axis=None, kind="stable"):
        i, j = np.unravel_index(k, dist.shape)
        if dist[i, j] > 0 and rows[0, j] < 0 and i not in rows:
            rows[0, j], found[0, j] = i, dist[i, j]
    return rows, found


MANY = np.random.default_rng(1).uniform(0.0, 1.0, (140, 90))

test_matching = table(
    case(
        "bipartite_match",
        {"DistMat": np.array([[0.2, 0.6, 0.0, 0.6], [0.5, 0.7, 0.0, 0.1], [0.3, 0.3, 0.4, 0.9]])},
        {"match_type": "bipartite", "dist_threshold": 0.5},
        {
            "ColToRowMatchIndices": np.array([[-1, 1, -1, 0], [-1, -1, -1, -1], [-1, -1, -1, 0]], "int32"),
            "ColToRowMatchDist": np.array([[0.0, 0.7, 0.0, 0.6], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.9]]),
        },
        dtypes="float32",
        lod={"DistMat": [[0, 2, 2, 3]]},
    ),
    case(
        "bipartite_match",
        {"DistMat": np.array([[0.2, 0.6, 0.0, 0.6], [0.5, 0.7, 0.0, 0.1]])},
        {"match_type": "per_prediction", "dist_threshold": 0.3},
        {
            "ColToRowMatchIndices": np.array([[1, 1, -1, 0]], "int32"),
            "ColToRowMatchDist": np.array([[0.5, 0.7, 0.0, 0.6]]),
        },
        dtypes="float32",
    ),
    case(
        "target_assign",
        {
            "X": np.array(
                [[[-1.69, 1.12], [-0.25, 0.89]], [[1.91, 0.15], [0.0, -1.71]], [[-0.93, 0.0], [0.72, 1.21]]], "float32"
            ),
            "MatchIndices": np.array([[1, -1, 0, -1], [-1, -1, -1, -1], [0, -1, -1, 0]], "int32"),
        },
        {"mismatch_value": 7},
        {
            "Out": np.array(
                [
                    [[1.90999996662, 0.15000000596], [7.0, 7.0], [-1.69000005722, 1.12000000477], [7.0, 7.0]],
                    [[7.0, 7.0], [7.0, 7.0], [7.0, 7.0], [7.0, 7.0]],
                    [[-0.930000007153, 0.0], [7.0, 7.0], [7.0, 7.0], [0.72000002861, 1.21000003815]],
                ],
                "float32",
            ),
            "OutWeight": np.array(
                [[[1.0], [0.0], [1.0], [0.0]], [[0.0], [0.0], [0.0], [0.0]], [[1.0], [0.0], [0.0], [1.0]]], "float32"
            ),
        },
        lod={"X": [[0, 2, 2, 3]]},
    ),
    case(
        "target_assign",
        {
            "X": np.array([[[4]], [[5]], [[6]]], "int32"),
            "MatchIndices": np.array([[1, -1, 0, -1], [-1, 0, -1, -1]], "int32"),
            "NegIndices": np.array([[1], [0], [3]], "int32"),
        },
        {"mismatch_value": 0},
        {
            "Out": np.array([[[5], [0], [4], [0]], [[0], [6], [0], [0]]], "int32"),
            "OutWeight": np.array([[[1.0], [1.0], [1.0], [0.0]], [[1.0], [1.0], [0.0], [1.0]]], "float32"),
        },
        lod={"X": [[0, 2, 3]], "NegIndices": [[0, 1, 3]]},
        out_dtype={"Out": "int32", "OutWeight": "float32"},
    ),
    case(
        "mine_hard_examples",
        {
            "ClsLoss": np.array([[0.1, 0.5, 0.3, 0.9], [0.4, 0.2, 0.8, 0.6]]),
            "MatchIndices": np.array([[0, -1, -1, -1], [-1, -1, 1, 0]], "int32"),
            "MatchDist": np.array([[0.2, 0.4, 0.1, 0.3], [0.3, 0.9, 0.2, 0.4]]),
        },
        {"neg_pos_ratio": 2.0, "neg_dist_threshold": 0.5, "sample_size": 0, "mining_type": "max_negative"},
        {
            "NegIndices": np.array([[1], [3], [0]], "int32"),
            "UpdatedMatchIndices": np.array([[0, -1, -1, -1], [-1, -1, 1, 0]], "int32"),
        },
        dtypes="float32",
        out_lod={"NegIndices": [[0, 2, 3]]},
    ),
    case(
        "mine_hard_examples",
        {
            "ClsLoss": np.array([[0.1, 0.5, 0.3, 0.9], [0.4, 0.2, 0.8, 0.6]]),
            "LocLoss": np.array([[0.9, 0.5, 0.1, 0.0], [0.4, 0.1, 0.1, 0.5]]),
            "MatchIndices": np.array([[0, -1, -1, 2], [-1, -1, 1, 0]], "int32"),
            "MatchDist": np.array([[0.2, 0.4, 0.1, 0.3], [0.3, 0.9, 0.2, 0.4]]),
        },
        {"neg_pos_ratio": 1.0, "neg_dist_threshold": 0.5, "sample_size": 2, "mining_type": "hard_example"},
        {
            "NegIndices": np.array([[1]], "int32"),
            "UpdatedMatchIndices": np.array([[0, -1, -1, -1], [-1, -1, 1, 0]], "int32"),
        },
        dtypes="float32",
        out_lod={"NegIndices": [[0, 1, 1]]},
    ),
    # for 130 rows and more Paddle uses another algorithm
    case("bipartite_match", [MANY], {}, greedy(MANY), dtypes="float32", tol=1e-6),
    case("bipartite_match", [MANY[:60]], {}, greedy(MANY[:60]), dtypes="float32", tol=1e-6),
    # an image without objects, and one with similarity NaN
    case(
        "bipartite_match",
        [np.array([[0.5, 0.25], [np.nan, np.nan]])],
        {"match_type": "per_prediction"},
        (np.array([[0, -1], [-1, -1], [-1, -1]], "int32"), np.array([[0.5, 0], [0, 0], [0, 0]])),
        lod={"DistMat": [[0, 1, 1, 2]]},
    ),
    case("bipartite_match", [np.zeros((0, 2))], {}, (np.full((1, 2), -1, "int32"), np.zeros((1, 2)))),
    case(
        "target_assign",
        [X[:0], np.full((1, 2), -1, "int32")],
        {"mismatch_value": 3},
        (np.full((1, 2, 1), 3.0), np.zeros((1, 2, 1))),
        lod={"X": [[0, 0]]},
    ),
    case(
        "mine_hard_examples",
        {"ClsLoss": LOSS, "MatchIndices": np.full((1, 2), -1, "int32"), "MatchDist": DIST},
        {},
        (np.zeros((0, 1), "int32"), np.full((1, 2), -1, "int32")),
        out_lod={"NegIndices": [[0, 0]]},
    ),
)
test_wrong = table(
    case("bipartite_match", [MANY], {"match_type": "no"}, raises=ValueError, match="'no'"),
    case("target_assign", [X, ROWS], raises=ValueError, match="LoD"),
    case("target_assign", [X, ROWS + 5], lod={"X": [[0, 2]]}, raises=ValueError, match="MatchIndices"),
    case(
        "target_assign",
        [X, ROWS, np.array([[9]], "int32")],
        lod={"X": [[0, 2]], "NegIndices": [[0, 1]]},
        raises=ValueError,
        match="NegIndices",
    ),
    case(
        "mine_hard_examples",
        {"ClsLoss": LOSS, "MatchIndices": ROWS, "MatchDist": DIST},
        {"mining_type": "no"},
        raises=ValueError,
        match="'no'",
    ),
    case(
        "mine_hard_examples",
        {"ClsLoss": LOSS, "MatchIndices": ROWS, "MatchDist": DIST},
        {"neg_pos_ratio": 0.0},
        raises=ValueError,
        match="neg_pos_ratio",
    ),
    case(
        "mine_hard_examples",
        {"ClsLoss": LOSS, "MatchIndices": ROWS, "MatchDist": DIST[:, :1]},
        raises=ValueError,
        match="MatchDist",
    ),
)
