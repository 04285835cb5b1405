"""auc, mean_iou, precision_recall."""

import numpy as np
from case import case, ints, real, table


def auc(predict, label, pos, neg, num_thresholds=8191, slide_steps=1, curve="ROC"):
    buckets = num_thresholds + 1
    found = (predict[:, -1] * num_thresholds).astype(int)
    tables = []
    for old, own in ((pos, label.ravel() > 0), (neg, label.ravel() == 0)):
        new = old.ravel().copy()
        add = np.bincount(found[own], minlength=buckets)
        if slide_steps:
            start = new[-1] % slide_steps * buckets
            total = slide_steps * buckets
            new[total:-1] += add - new[start : start + buckets]
            new[start : start + buckets] = add
            new[-1] += 1
            tables.append((new, new[total:-1]))
        else:
            tables.append((new + add, new + add))
    (new_pos, p), (new_neg, n) = tables
    wins = sum(p[i] * (n[:i].sum() + n[i] / 2) for i in range(buckets))
    area = wins / p.sum() / n.sum() if p.sum() and n.sum() else wins
    return np.array([area]), new_pos.reshape(pos.shape), new_neg.reshape(neg.shape)


def counts(steps, buckets=11):
    shape = ((1 + steps) * buckets + 1,) if steps else (1, buckets)
    return np.zeros(shape, "int64")


def used(steps):
    """Counts after a first batch."""
    first = auc(
        real(7, 2, low=0, high=1, seed=5), ints(7, 1, low=0, high=2, seed=6), counts(steps), counts(steps), 10, steps
    )
    return list(first[1:])


def aucs(predict, label, tables, steps):
    return case(
        "auc",
        [predict, label, *tables],
        {"num_thresholds": 10, "slide_steps": steps},
        auc,
        dtypes="float32",
        out_dtype={"AUC": "float64", "StatPosOut": "int64", "StatNegOut": "int64"},
    )


P, L = real(8, 2, low=0, high=1), ints(8, 1, low=0, high=2)
test_auc = table(
    aucs(P, L, [counts(0)] * 2, 0),
    aucs(P, L, used(0), 0),
    aucs(P, L, used(1), 1),
    aucs(P, L, used(3), 3),
    aucs(P[:, :1], L, used(3), 3),
    aucs(P, 0 * L, [counts(0)] * 2, 0),
    case("auc", [P + 1, L, *used(0)], {"num_thresholds": 10, "slide_steps": 0}, raises=RuntimeError, match="probab"),
    case("auc", [P, L[:5], *used(0)], {"num_thresholds": 10, "slide_steps": 0}, raises=ValueError, match="rows"),
    case("auc", [P, L, *used(0)], {"num_thresholds": 20, "slide_steps": 0}, raises=ValueError, match="21 integers"),
    case("auc", [P, L, *used(0)], {"num_thresholds": -2}, raises=ValueError, match="negative"),
    case("auc", [real(8, 3, low=0, high=1), L, *used(0)], {"num_thresholds": 10}, raises=ValueError, match="columns"),
)


def iou(p, l, *former, num_classes):
    wrong, correct, mean = np.zeros(num_classes), np.zeros(num_classes), 0.0
    if former:
        wrong, correct, mean = (sum(f) for f in former)
    correct = correct + np.bincount(p[p == l], minlength=num_classes)
    wrong = wrong + np.bincount(p[p != l], minlength=num_classes) + np.bincount(l[p != l], minlength=num_classes)
    there = wrong + correct > 0
    mean = mean + (correct[there] / (wrong + correct)[there]).mean()
    return np.array([mean]).ravel(), wrong.astype("int32"), correct.astype("int32")


GIVEN = [ints(3, 4, low=0, high=4), ints(3, 4, low=0, high=4, seed=1)]
KINDS = {"OutMeanIou": "float32", "OutWrong": "int32", "OutCorrect": "int32"}
FORMER = [[np.arange(5, dtype="int32")] * 2, [np.arange(5, dtype="int32") + 1], [np.array([0.5], "float32")]]
test_iou = table(
    case("mean_iou", GIVEN, {"num_classes": 5}, iou, dtypes="int32", out_dtype=KINDS),
    case("mean_iou", [*GIVEN, *FORMER], {"num_classes": 5}, iou, out_dtype=KINDS, tol=1e-5),
    case("mean_iou", [GIVEN[0], GIVEN[1] + 5], {"num_classes": 5}, raises=ValueError, match="Labels"),
    case("mean_iou", [GIVEN[0] - 9, GIVEN[1]], {"num_classes": 5}, raises=ValueError, match="Predictions"),
    case("mean_iou", [GIVEN[0], GIVEN[1][:2]], {"num_classes": 5}, raises=ValueError, match="elements"),
    case("mean_iou", GIVEN, {"num_classes": 0}, raises=ValueError, match="number of classes"),
)


def metrics(s):
    def share(a, b):
        return np.where((a > 0) | (b > 0), a / np.where(a + b == 0, 1, a + b), 1.0)

    def f1(p, r):
        return 2 * p * r / (p + r) if p > 0 or r > 0 else 0.0

    p, r = share(s[:, 0], s[:, 1]).mean(), share(s[:, 0], s[:, 3]).mean()
    t = s.sum(0)
    mp, mr = share(t[0], t[1]), share(t[0], t[3])
    return np.array([p, r, f1(p, r), mp, mr, f1(mp, mr)])


def precision(probs, indices, labels, *more, class_number):
    weights = next((m for m in more if m.shape[1] == 1), np.ones((len(probs), 1)))
    former = next((m for m in more if m.shape[1] == 4), 0)
    s = np.zeros((class_number, 4))
    for i, l, w in zip(indices.ravel(), labels.ravel(), weights.ravel(), strict=True):
        for c in range(class_number):
            s[c, (0 if i == l else 1) if c == i else 3 if c == l else 2] += w
    return metrics(s), metrics(s + former), s + former


INDICES, LABELS = (ints(9, 1, low=0, high=3, seed=i).astype("int32") for i in (2, 3))
PROBS, WEIGHTS, STATES = real(9, 1, low=0, high=1), real(9, 1, low=0, high=1, seed=4), real(4, 4, low=0, high=5, seed=5)
DOUBLES = {"BatchMetrics": "float64", "AccumMetrics": "float64"}


def recalls(*more):
    return case("precision_recall", [PROBS, INDICES, LABELS, *more], {"class_number": 4}, precision, out_dtype=DOUBLES)


FOUR = {"class_number": 4}
test_precision = table(
    recalls(),
    recalls(WEIGHTS),
    recalls(WEIGHTS, STATES),
    recalls(None, STATES),
    case(
        "precision_recall",
        [PROBS.astype("float32"), INDICES, LABELS],
        FOUR,
        precision,
        out_dtype={**DOUBLES, "AccumStatesInfo": "float32"},
    ),
    case("precision_recall", [PROBS, INDICES + 2, LABELS], FOUR, raises=ValueError, match="Indices"),
    case("precision_recall", [PROBS, INDICES, LABELS - 3], FOUR, raises=ValueError, match="Labels"),
    case("precision_recall", [PROBS, INDICES[:4], LABELS], FOUR, raises=ValueError, match="Indices"),
    case("precision_recall", [PROBS, INDICES, LABELS, None, STATES[:3]], FOUR, raises=ValueError, match="StatesInfo"),
)
