"""CTC loss and alignment, and edit distance."""

import itertools

import numpy as np
import paddle
from case import case, real, table
from paddle import fluid

# connectionist temporal classification


def collapsed(path, blank):
    return tuple(k for k, _ in itertools.groupby(path) if k != blank)


def ctc(x, labels, blank):
    """-log of the sum over all alignments, by enumeration."""
    p = np.exp(x - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    paths = itertools.product(range(x.shape[1]), repeat=len(x))
    total = sum(np.prod(p[range(len(x)), path]) for path in paths if collapsed(path, blank) == tuple(labels))
    return -np.log(total) if total else 0.0


def padded(x, label, steps, labels, blank=0, **_):
    steps, labels = steps.astype(int), labels.astype(int)
    return [[ctc(x[:n, b], label[b, :k], blank)] for b, (n, k) in enumerate(zip(steps, labels, strict=True))]


def by_lod(x, label, blank=0, **_):
    return [[ctc(x[:3], label[:2, 0], blank)], [ctc(x[3:7], label[2:3, 0], blank)], [ctc(x[7:9], [], blank)]]


SCORES = real(4, 3, 4, low=-2, high=2, seed=1)
LABELS = np.array([[1, 3, 2], [2, 2, 0], [3, 0, 0]], "int32")
STEPS, COUNTS = np.array([4, 3, 2]), np.array([3, 2, 1])
FLAT = real(9, 4, low=-2, high=2, seed=2)
FLAT_LABELS = np.array([[1], [2], [3]], "int32")
LODS = {"Logits": [[0, 3, 7, 9]], "Label": [[0, 2, 3, 3]]}
LOSS = {"grad": "Logits", "grad_of": "Loss"}


def loss(*given, **attrs):
    return {"Loss": np.array(padded(*given, **attrs))}


def lod_loss(*given, **attrs):
    return {"Loss": np.array(by_lod(*given, **attrs))}


def wrong(match, inputs, attrs=None, **more):
    return case("warpctc", inputs, attrs or {}, raises=ValueError, match=match, **more)


test_warpctc = table(
    case("warpctc", [SCORES, LABELS, STEPS, COUNTS], expected=loss, dtypes="float32", **LOSS),
    case("warpctc", [SCORES, LABELS - (LABELS > 0), STEPS, COUNTS], {"blank": 3}, loss, **LOSS),
    case("warpctc", [SCORES, LABELS.astype("int64"), STEPS, COUNTS], expected=loss),
    case("warpctc", [SCORES, LABELS, STEPS.astype("int32"), COUNTS * 0], expected=loss, **LOSS),
    # more labels (or equal adjacent labels) than steps: no alignment
    case("warpctc", [SCORES[:3], LABELS, np.array([2, 2, 0]), COUNTS], expected=loss, **LOSS),
    case("warpctc", [SCORES * 300, LABELS, STEPS, COUNTS], expected=None),
    case("warpctc", [FLAT, FLAT_LABELS], expected=lod_loss, lod=LODS, **LOSS),
    case("warpctc", [SCORES[:, :0], LABELS[:0], STEPS[:0], COUNTS[:0]], expected={"Loss": np.zeros((0, 1))}),
    wrong("blank", [SCORES, LABELS, STEPS, COUNTS], {"blank": 4}),
    wrong("blank", [SCORES, LABELS, STEPS, COUNTS], {"blank": -1}),
    wrong("number of classes", [SCORES, LABELS + 1, STEPS, COUNTS]),
    wrong("number of classes", [SCORES, LABELS - 2, STEPS, COUNTS]),
    wrong("LogitsLength", [SCORES, LABELS, STEPS + 1, COUNTS]),
    wrong("LabelLength", [SCORES, LABELS, STEPS, COUNTS + 1]),
    wrong("LabelLength", [SCORES, LABELS, STEPS, COUNTS - 2]),
    wrong("together", [SCORES, LABELS, STEPS]),
    wrong("three dimensions", [FLAT, LABELS, STEPS, COUNTS]),
    wrong("LoD", [FLAT, FLAT_LABELS]),
    wrong("LoD", [FLAT, FLAT_LABELS], lod={**LODS, "Logits": [[0, 3, 8]]}),
    wrong("sequences", [FLAT, FLAT_LABELS], lod={**LODS, "Label": [[0, 3]]}),
)


def test_warpctc_by_times() -> None:
    """norm_by_times divides the gradient, not the loss, by the number of steps."""
    import paddle
    from paddle import _ops

    grads = []
    for by_times in (False, True):
        x = paddle.to_tensor(SCORES, stop_gradient=False)
        rest = [paddle.to_tensor(a) for a in (LABELS, STEPS, COUNTS)]
        out = _ops.warpctc(x, *rest, norm_by_times=by_times)[1]
        out.sum().backward()
        grads.append(x.gradient())
    np.testing.assert_allclose(grads[1], grads[0] / STEPS[None, :, None], rtol=1e-12)


def test_warpctc_far_from_one() -> None:
    """Large scores and many steps: finite results; the gradients of each step sum to 0."""
    import paddle
    from paddle import _ops

    rng = np.random.default_rng(0)
    x = paddle.to_tensor((rng.normal(size=(400, 1, 30)) * 200).astype("float32"), stop_gradient=False)
    label = paddle.to_tensor(rng.integers(1, 30, (1, 150)).astype("int32"))
    out = _ops.warpctc(x, label, paddle.to_tensor([400]), paddle.to_tensor([150]))[1]
    out.backward()
    assert np.isfinite(out.item())
    np.testing.assert_allclose(x.gradient().sum(2), 0, atol=1e-4)
    assert np.abs(x.gradient()).max() <= 1 + 1e-5


ALIGNMENT = np.array([[0, 1, 2, 2, 0, 4], [0, 4, 5, 0, 6, 0], [0, 7, 7, 7, 0, 0]])
test_ctc_align = table(
    case(
        "ctc_align",
        [ALIGNMENT, np.array([[6], [5], [3]])],
        {"padding_value": 9},
        {
            "Output": np.array([[1, 2, 4, 9, 9, 9], [4, 5, 6, 9, 9, 9], [7, 9, 9, 9, 9, 9]]),
            "OutputLength": np.array([[3], [3], [1]]),
        },
    ),
    case(
        "ctc_align",
        [ALIGNMENT.astype("int32"), np.array([[6], [5], [0]], "int32")],
        {},
        {"OutputLength": np.array([[3], [3], [0]], "int32")},
    ),
    case(
        "ctc_align",
        [ALIGNMENT, np.array([[6], [0], [4]])],
        {"blank": 7, "merge_repeated": False},
        {
            "Output": np.array([[0, 1, 2, 2, 0, 4], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]),
            "OutputLength": np.array([[6], [0], [1]]),
        },
    ),
    case(
        "ctc_align",
        [ALIGNMENT.reshape(-1, 1)],
        {},
        {"Output": np.array([[1], [2], [4], [4], [5], [6], [7]])},
        lod={"Input": [[0, 6, 12, 18]]},
        out_lod={"Output": [[0, 3, 6, 7]]},
    ),
    case(
        "ctc_align",
        [np.zeros((3, 1), "int32")],
        {},
        {"Output": np.array([[-1]], "int32")},
        lod={"Input": [[0, 3]]},
        out_lod={"Output": [[0, 0]]},
    ),
    case("ctc_align", [ALIGNMENT], raises=ValueError, match="LoD"),
    case("ctc_align", [ALIGNMENT, np.array([[6], [7], [3]])], raises=ValueError, match="InputLength"),
    case("ctc_align", [ALIGNMENT[0]], raises=ValueError, match="two dimensions"),
)


# edit distances


def distance(a, b):
    if not len(a) or not len(b):
        return len(a) + len(b)
    return min(distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0]))


def edits(hyps, refs, hyps_length, refs_length, normalized=False):
    rows = [
        distance(list(h[:m]), list(r[:n])) / (n if normalized else 1)
        for h, r, m, n in zip(hyps, refs, hyps_length, refs_length, strict=True)
    ]
    return {"SequenceNum": np.array([len(rows)]), "Out": np.array(rows, "float32").reshape(-1, 1)}


HYPS = np.array([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [1, 1, 2, 2, 7]])
REFS = np.array([[1, 3, 4, 6], [4, 4, 3, 3], [9, 9, 9, 9]])
LENGTHS = [np.array([5, 4, 0]), np.array([4, 4, 3])]
FLAT_EDITS = [np.array([[1], [2], [3], [4]]), np.array([[1], [3], [5]])]


FLOAT: dict = {"out_dtype": {"Out": "float32"}}


def wrong_edits(match, inputs, attrs=None, **more):
    return case("edit_distance", inputs, attrs or {}, raises=ValueError, match=match, **more)


test_edit_distance = table(
    case("edit_distance", [HYPS, REFS, *LENGTHS], {}, edits, **FLOAT),
    case("edit_distance", [HYPS, REFS, *LENGTHS], {"normalized": True}, edits, **FLOAT),
    case("edit_distance", [HYPS.astype("int32"), REFS, LENGTHS[0], LENGTHS[1] * 0], {}, edits, **FLOAT),
    case(
        "edit_distance",
        FLAT_EDITS,
        {},
        {"Out": np.array([[1], [1]], "float32"), "SequenceNum": np.array([2])},
        lod={"Hyps": [[0, 2, 4]], "Refs": [[0, 1, 3]]},
        **FLOAT,
    ),
    case("edit_distance", [HYPS[:0], REFS[:0], *(n[:0] for n in LENGTHS)], {}, edits, **FLOAT),
    wrong_edits("empty", [HYPS, REFS, LENGTHS[0], LENGTHS[1] * 0], {"normalized": True}),
    wrong_edits("together", [HYPS, REFS, LENGTHS[0]]),
    wrong_edits("HypsLength", [HYPS, REFS, LENGTHS[0] + 1, LENGTHS[1]]),
    wrong_edits("RefsLength", [HYPS, REFS, LENGTHS[0], LENGTHS[1] - 4]),
    wrong_edits("batch", [HYPS[:2], REFS, *LENGTHS]),
    wrong_edits("LoD", FLAT_EDITS),
    wrong_edits("as many", FLAT_EDITS, lod={"Hyps": [[0, 4]], "Refs": [[0, 1, 3]]}),
    wrong_edits("LoD", [HYPS, REFS]),
)


def test_edit_distance_of_blank_sequences():
    """ctc_align returns one row, which belongs to no sequence."""
    paddle.enable_static()
    try:
        with fluid.program_guard(fluid.Program()):
            scores = fluid.data("scores", [None, 3], "float32", 1)
            label = fluid.data("label", [None, 1], "int64", 1)
            distance, count = fluid.layers.edit_distance(
                fluid.layers.ctc_greedy_decoder(scores, blank=2), label, normalized=False
            )
            place = fluid.CPUPlace()
            feed = {
                "scores": fluid.create_lod_tensor(np.eye(3, dtype="float32")[[2, 2, 2]], [[1, 2]], place),
                "label": fluid.create_lod_tensor(np.array([[1], [0], [1]]), [[1, 2]], place),
            }
            found = fluid.Executor(place).run(feed=feed, fetch_list=[distance, count])
        assert found[0].tolist() == [[1.0], [2.0]] and found[1].tolist() == [2]
    finally:
        paddle.disable_static()
