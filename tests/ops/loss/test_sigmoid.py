"""sigmoid_focal_loss, teacher_student_sigmoid_loss, bpr_loss, hierarchical_sigmoid."""

import numpy as np
from case import case, ints, real, table


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def focal(x, label, number, gamma=2.0, alpha=0.25):
    p = 1 / (1 + np.exp(-x))
    own = label == np.arange(1, x.shape[1] + 1)
    n = max(number[0], 1)
    yes = -alpha / n * (1 - p) ** gamma * np.log(p)
    no = (1 - alpha) / n * p**gamma * softplus(x)
    return np.where(own, yes, np.where(label != -1, no, 0))


LABEL = np.array([[1], [0], [3], [-1]], "int32")
NUMBER = np.array([2], "int32")
test_focal = table(
    case("sigmoid_focal_loss", [real(4, 3) * 2, LABEL, NUMBER], expected=focal, grad="X", dtypes="float32"),
    case("sigmoid_focal_loss", [real(4, 3), LABEL, 0 * NUMBER], {"gamma": 1.5, "alpha": 0.5}, focal, grad="X"),
    case("sigmoid_focal_loss", [real(4, 3), LABEL[:3], NUMBER], raises=ValueError, match="Label"),
    case("sigmoid_focal_loss", [real(4, 3), LABEL, np.array([1, 2], "int32")], raises=ValueError, match="FgNum"),
)


def teacher(x, y, soft_max_up_bound=15.0, soft_max_lower_bound=-15.0):
    def entropy(y):
        return softplus(x) - x * y

    both = np.where(y < 1, entropy(0) + entropy(y), entropy(1) + entropy(y - 1))
    return np.where(y < -1, entropy(0), np.where(y < 0, entropy(1), both))


TEACHER = np.array([[-2.0], [-1.0], [0.25], [0.75], [1.25], [1.75]])
test_teacher = table(
    case("teacher_student_sigmoid_loss", [real(6, 1) * 3, TEACHER], expected=teacher, grad="X", dtypes="float32"),
    case("teacher_student_sigmoid_loss", [real(6, 2), TEACHER], raises=ValueError, match="same shape"),
    case("teacher_student_sigmoid_loss", [real(6), TEACHER[:, 0]], raises=ValueError, match=r"\[N, 1\]"),
)


def bpr(x, label):
    own = np.take_along_axis(x, label, -1)
    pairs = softplus(x - own)
    np.put_along_axis(pairs, label, 0, -1)
    return pairs.sum(-1, keepdims=True) / (x.shape[-1] - 1)


test_bpr = table(
    case("bpr_loss", [real(4, 5), ints(4, 1, low=0, high=5)], expected=bpr, grad="X", dtypes="float32"),
    case("bpr_loss", [real(2, 3, 5), ints(2, 3, 1, low=0, high=5)], expected=bpr, grad="X"),
    case("bpr_loss", [real(4, 5), ints(4, 1, low=5, high=6)], raises=ValueError, match="classes"),
    case("bpr_loss", [real(4, 5), ints(4, 2, low=0, high=5)], raises=ValueError, match="last dimension"),
)


def tree(x, w, label, table=None, code=None, bias=None, num_classes=2, is_sparse=False):
    if bias is None and code is None and table is not None:
        table, bias = None, table
    bias = np.zeros(len(w)) if bias is None else bias.ravel()
    length = int(num_classes - 1).bit_length() if table is None else table.shape[1]
    scores, out = np.zeros((len(x), length)), np.zeros((len(x), 1))
    for i, c in enumerate(label.ravel()[: len(x)]):
        if table is None:
            leaf = int(c) + num_classes
            path = [((leaf >> (b + 1)) - 1, leaf >> b & 1) for b in range(leaf.bit_length() - 1)]
        else:
            path = [(n, s) for n, s in zip(table[i], code[i], strict=True) if n >= 0]
        for j, (node, side) in enumerate(path):
            scores[i, j] = np.clip(x[i] @ w[node] + bias[node], -40, 40)
            out[i] -= side * scores[i, j]
        out[i] += softplus(scores[i]).sum()
    return out, softplus(scores), None


PATH = np.array([[0, 2, -1, -1], [0, 1, 3, -1], [0, 1, 4, 5], [0, 2, -1, -1]])
CODE = np.array([[0, 1, -1, -1], [1, 0, 0, -1], [1, 1, 0, 1], [0, 1, -1, -1]])


def trees(label, *more, grad="X W", classes=6, rows=5, dtypes="float32", **attrs):
    return case(
        "hierarchical_sigmoid",
        [real(4, 3), real(rows, 3, seed=1), label, *more],
        {"num_classes": classes, **attrs},
        tree,
        grad=grad,
        grad_of="Out",
        dtypes=dtypes,
    )


SIX = np.array([[0], [5], [2], [3]])
test_tree = table(
    trees(SIX),
    trees(np.array([[0, 5], [2, 3], [1, 1], [4, 4]])),  # the first four numbers are labels
    trees(SIX, None, None, real(5, 1, seed=2), grad="X W Bias"),
    trees(np.array([[1], [0], [1], [1]]), classes=2, rows=1),
    trees(SIX, PATH, CODE, real(6, 1, seed=2), grad="X W Bias", rows=6),
    case(
        "hierarchical_sigmoid",
        [real(4, 3), real(6, 3, seed=1), SIX, PATH, CODE],
        {"num_classes": 6, "is_sparse": True},
        tree,
        grad="X W",
        grad_of="Out",
        rows_grad="W",
    ),
    case(
        "hierarchical_sigmoid",
        [real(4, 3), real(5, 3), SIX + 1],
        {"num_classes": 6},
        raises=ValueError,
        match="classes",
    ),
    case(
        "hierarchical_sigmoid", [real(4, 3), real(3, 3), SIX], {"num_classes": 6}, raises=IndexError, match="rows of W"
    ),
    case("hierarchical_sigmoid", [real(4, 3), real(5, 3), SIX, PATH, CODE], {"num_classes": 6}, raises=IndexError),
    case("hierarchical_sigmoid", [real(4, 3), real(5, 2), SIX], {"num_classes": 6}, raises=ValueError, match="width"),
    case(
        "hierarchical_sigmoid", [real(4, 3), real(5, 3), SIX], {"num_classes": 1}, raises=ValueError, match="2 or more"
    ),
    case(
        "hierarchical_sigmoid",
        [real(4, 3), real(5, 3), SIX],
        {"num_classes": 6, "remote_prefetch": True},
        raises=NotImplementedError,
        match="parameter server",
    ),
)
