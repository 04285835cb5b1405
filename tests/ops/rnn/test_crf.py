"""Sequence tagging: linear chain CRF and chunk_eval."""

import itertools

import numpy as np
from case import case, real, table

TAGS = 3
OFFSETS = [0, 2, 6, 6, 7]


def score(x, w, path):
    return (
        w[0, path[0]]
        + w[1, path[-1]]
        + x[range(len(x)), path].sum()
        + sum(w[2 + a, b] for a, b in itertools.pairwise(path))
    )


def paths(x):
    return [list(p) for p in itertools.product(range(x.shape[1]), repeat=len(x))]


def cost(x, w, label):
    if not len(x):
        return 0.0
    return np.log(sum(np.exp(score(x, w, p)) for p in paths(x))) - score(x, w, label)


def best(x, w):
    return max(paths(x), key=lambda p: score(x, w, p)) if len(x) else []


def by_lod(x, w, label):
    label = label.astype(int).ravel()
    return {"LogLikelihood": [[cost(x[a:b], w, label[a:b])] for a, b in itertools.pairwise(OFFSETS)]}


def padded(x, w, label, length):
    label, length = label.astype(int).reshape(label.shape[:2]), length.astype(int)
    return {"LogLikelihood": [[cost(x[i, :n], w, label[i, :n])] for i, n in enumerate(length)]}


def crf(inputs, expected, **more):
    return case(
        "linear_chain_crf", inputs, expected=expected, grad="Emission Transition", grad_of="LogLikelihood", **more
    )


X, W = real(7, TAGS, low=-2, high=2, seed=1), real(TAGS + 2, TAGS, seed=2)
LABEL = np.random.default_rng(3).integers(0, TAGS, (7, 1))
PADDED, TWO = real(3, 4, TAGS, low=-2, high=2, seed=4), np.random.default_rng(5).integers(0, TAGS, (3, 4))
LENGTH = np.array([4, 2, 0])
LODS = {"lod": {"Emission": [OFFSETS], "Label": [OFFSETS]}}
BEHIND = np.array(TWO)
BEHIND[1, 2:] = 99  # padding may have any value


def wrong(match, inputs, op="linear_chain_crf", **more):
    return case(op, inputs, raises=ValueError, match=match, **more)


test_linear_chain_crf = table(
    crf([X, W, LABEL], by_lod, dtypes="float32", **LODS),
    crf([PADDED, W, TWO, LENGTH], padded, dtypes="float32"),
    crf([PADDED, W, TWO[..., None], LENGTH], padded),
    crf([PADDED, W, BEHIND, LENGTH], padded),
    case("linear_chain_crf", [PADDED[:0], W, TWO[:0], LENGTH[:0]], expected={"LogLikelihood": np.zeros((0, 1))}),
    wrong("tags", [X, W, LABEL + 1], **LODS),
    wrong("tags", [X, W, LABEL - 2], **LODS),
    wrong("Transition", [X, W[1:], LABEL], **LODS),
    wrong("Transition", [X, real(6, 4), LABEL], **LODS),
    wrong("LoD", [X, W, LABEL]),
    wrong("Label", [PADDED, W, TWO[:, :3], LENGTH]),
    wrong("Length", [PADDED, W, TWO, LENGTH + 1]),
    wrong("with lengths", [X, W, TWO, LENGTH]),
    wrong("are 0", [X - [[0, 900, 900]], np.where(np.arange(3) == 0, -2000, W), LABEL], **LODS),
)


def decoded(x, w):
    found = [best(x[a:b], w) for a, b in itertools.pairwise(OFFSETS)]
    return np.concatenate(found).reshape(-1, 1).astype("int64")


def decoded_padded(x, w, length):
    found = [best(row[:n], w) + [0] * (len(row) - n) for row, n in zip(x, length.astype(int), strict=True)]
    return np.array(found, "int64")


RIGHT = (decoded(X, W) == LABEL).astype("int64")
RIGHT_PADDED = (decoded_padded(PADDED, W, LENGTH) == TWO) & (np.arange(4) < LENGTH[:, None])
test_crf_decoding = table(
    case("crf_decoding", [X, W], expected=decoded(X, W), out_lod={"ViterbiPath": [OFFSETS]}, **LODS, dtypes="float32"),
    case("crf_decoding", [X, W, LABEL], expected=RIGHT, **LODS),
    case("crf_decoding", [PADDED, W, None, LENGTH], expected=decoded_padded(PADDED, W, LENGTH)),
    case("crf_decoding", [PADDED, W, TWO, LENGTH], expected=RIGHT_PADDED.astype("int64")),
    # of equal scores the first
    case("crf_decoding", [X * 0, W * 0], expected=LABEL * 0, **LODS),
    wrong("LoD", [X, W], "crf_decoding"),
    wrong("Length", [PADDED, W, None, LENGTH[:2]], "crf_decoding"),
)


def counts(found, given, correct):
    precision, recall = correct / found if found else 0, correct / given if given else 0
    f1 = 2 * precision * recall / (precision + recall) if correct else 0
    out = {"Precision": precision, "Recall": recall, "F1-Score": f1}
    out = {k: np.array([v], "float32") for k, v in out.items()}
    whole = {"NumInferChunks": found, "NumLabelChunks": given, "NumCorrectChunks": correct}
    return out | {k: np.array([v]) for k, v in whole.items()}


FLOATS = {"Precision": "float32", "Recall": "float32", "F1-Score": "float32"}
TWO_SEQUENCES = {"Inference": [[0, 6, 10]], "Label": [[0, 6, 10]]}


def chunks(tags, label, scheme, types, expected, lod=TWO_SEQUENCES, **more):
    columns = [np.array(v, int).reshape(-1, 1) for v in (tags, label)]
    return case(
        "chunk_eval",
        columns,
        {"chunk_scheme": scheme, "num_chunk_types": types, **more},
        counts(*expected),
        lod=lod,
        out_dtype=FLOATS,
    )


# IOB with two types: B0 I0 B1 I1 and 4, outside
IOB = [0, 1, 4, 2, 3, 3, 1, 1, 0, 4]
IOB_LABEL = [0, 1, 4, 2, 3, 0, 0, 1, 0, 1]
ROWS = [np.array([[0, 1, 4, 2, 3], [1, 1, 0, 4, 4]]), np.array([[0, 1, 4, 2, 3], [0, 1, 0, 1, 4]])]
test_chunk_eval = table(
    chunks(IOB, IOB_LABEL, "IOB", 2, (4, 5, 2)),
    chunks(IOB, IOB_LABEL, "IOB", 2, (3, 4, 2), excluded_chunk_types=[1]),
    # IOE: I0 E0 I1 E1
    chunks([0, 1, 0, 1, 4, 1, 2, 2, 3, 3], [0, 1, 0, 1, 4, 1, 2, 2, 3, 2], "IOE", 2, (5, 5, 5)),
    # IOBES: B I E S
    chunks([0, 1, 2, 3, 8, 3, 4, 6, 7, 8], [0, 1, 2, 3, 8, 8, 4, 6, 6, 8], "IOBES", 2, (5, 4, 4)),
    chunks([0, 0, 1, 1, 2, 0, 1, 1, 1, 2], [0, 0, 1, 1, 2, 2, 1, 1, 2, 2], "plain", 2, (4, 3, 2)),
    chunks([], [], "IOB", 2, (0, 0, 0), lod={"Inference": [[0, 0]], "Label": [[0, 0]]}),
    case("chunk_eval", [*ROWS, np.array([5, 3])], {"num_chunk_types": 2}, counts(4, 4, 4), out_dtype=FLOATS),
    case("chunk_eval", [*ROWS], {"num_chunk_types": 2}, raises=ValueError, match="LoD"),
    case("chunk_eval", [*ROWS, np.array([5, 6])], {"num_chunk_types": 2}, raises=ValueError, match="SeqLength"),
    case("chunk_eval", [*ROWS, np.array([5, 3])], {"num_chunk_types": 1}, raises=ValueError, match="tags"),
    case("chunk_eval", [*ROWS, np.array([5, 3])], {"num_chunk_types": 0}, raises=ValueError, match="num_chunk_types"),
    case(
        "chunk_eval",
        [*ROWS, np.array([5, 3])],
        {"num_chunk_types": 2, "chunk_scheme": "BIO"},
        raises=ValueError,
        match="chunk_scheme",
    ),
    case(
        "chunk_eval",
        [ROWS[0], ROWS[1][:1], np.array([5, 3])],
        {"num_chunk_types": 2},
        raises=ValueError,
        match="same shape",
    ),
)
