"""Calls of launchers that use CuPy functions."""

from __future__ import annotations

import numpy as np
from calls import Case, real
from paddle import _core

X = real(2, 3, 4)
#: well separated elements, so that extrema are unique
APART = np.random.default_rng(5).permutation(24).reshape(2, 3, 4).astype("float64") / 7
YES = X > 0.3
EMPTY = np.zeros((0, 2, 3, 4))
TABLE = {op["type"]: op for op in _core.op_table()}


def case(op, ins, attrs=None, dtypes=("float64", "float32"), own=False):
    return Case(op, ins, attrs or {}, dtypes, own)


def layouts() -> list[Case]:
    flat = {"start_axis": 1, "stop_axis": 2}
    forward = {
        "reshape": {"shape": [4, 6]},
        "reshape2": {"shape": [0, -1]},
        "flatten": {"axis": 2},
        "flatten2": {"axis": 1},
        "flatten_contiguous_range": flat,
        "unsqueeze": {"axes": [1]},
        "unsqueeze2": {"axes": [0, 3]},
        "transpose": {"axis": [2, 0, 1]},
        "transpose2": {"axis": [1, 2, 0]},
    }
    cases = [case(op, {"X": X}, attrs) for op, attrs in forward.items()]
    cases += [case(op, {"X": real(2, 1, 4)}, {"axes": [1]}) for op in ("squeeze", "squeeze2")]
    d = {"reshape": (4, 6), "flatten": (6, 4), "unsqueeze": (2, 1, 3, 4), "transpose": (4, 2, 3)}
    for op, shape in d.items():
        cases.append(case(f"{op}_grad", {"X": X, "Out@GRAD": real(*shape)}, forward[op]))
    cases.append(case("squeeze_grad", {"X": real(2, 1, 4), "Out@GRAD": real(2, 4)}, {"axes": [1]}))
    cases.append(case("squeeze2_grad", {"XShape": np.zeros((0, 2, 1, 4)), "Out@GRAD": real(2, 4)}, {"axes": [1]}))
    d = {
        "reshape2": (2, 12),
        "flatten2": (2, 12),
        "flatten_contiguous_range": (2, 12),
        "unsqueeze2": (1, 2, 3, 1, 4),
        "transpose2": (3, 4, 2),
    }
    cases += [case(f"{op}_grad", {"XShape": EMPTY, "Out@GRAD": real(*s)}, forward[op]) for op, s in d.items()]
    cases += [case(op, {"X": X}, {"axis": [0, -1]}) for op in ("flip", "reverse")]
    attrs = {"shifts": [1, -2], "axis": [0, 2]}
    cases += [case("roll", {"X": X}, attrs), case("roll_grad", {"X": X, "Out@GRAD": X}, attrs)]
    for lower in (True, False):
        attrs = {"diagonal": 1, "lower": lower}
        cases += [case("tril_triu", {"X": X}, attrs), case("tril_triu_grad", {"Out@GRAD": X}, attrs)]
    image = real(2, 8, 3, 2)
    cases += [case("shuffle_channel", {"X": image}, {"group": 4})]
    cases += [case("shuffle_channel_grad", {"Out@GRAD": image}, {"group": 4})]
    cases += [case("pixel_shuffle", {"X": image}, {"upscale_factor": 2})]
    cases += [case("pixel_shuffle_grad", {"Out@GRAD": real(2, 2, 6, 4)}, {"upscale_factor": 2})]
    cases += [case("assign", {"X": X}), case("cast", {"X": X}, {"in_dtype": 5, "out_dtype": 2}, ("float32",))]
    return cases


def joins() -> list[Case]:
    parts = [X, real(2, 5, 4)]
    cases = [case("concat", {"X": parts}, {"axis": a}) for a in (1, -2)]
    cases.append(case("concat_grad", {"X": parts, "Out@GRAD": real(2, 8, 4)}, {"axis": 1}))
    cases.append(case("split", {"X": X}, {"num": 2, "axis": 2}))
    cases.append(case("split", {"X": X}, {"sections": [1, -1], "axis": 1}))
    cases += [case("stack", {"X": [X, X + 1]}, {"axis": a}) for a in (0, -1)]
    cases.append(case("stack_grad", {"Y@GRAD": X}, {"axis": 1}))
    cases.append(case("unstack", {"X": X}, {"axis": 1, "num": 3}))
    cases.append(case("unstack_grad", {"Y@GRAD": [X, X + 1]}, {"axis": 1, "num": 2}))
    cases.append(case("unbind", {"X": X}, {"axis": 0}))
    cut = {"axes": [1, 2], "starts": [-2, 1], "ends": [9, -1]}
    cases += [
        case("slice", {"Input": X}, cut),
        case("slice", {"Input": X}, {**cut, "starts": [1, 1], "ends": [2, 3], "decrease_axis": [1]}),
    ]
    cases.append(case("slice_grad", {"Input": X, "Out@GRAD": real(2, 2, 2)}, cut))
    steps = {"axes": [2], "starts": [0], "ends": [4], "strides": [2]}
    cases.append(case("strided_slice", {"Input": X}, steps))
    cases.append(case("strided_slice_grad", {"Input": X, "Out@GRAD": real(2, 3, 2)}, steps))
    one = real(1, 3, 1)
    cases += [case("expand_v2", {"X": one}, {"shape": [2, -1, 4]})]
    cases += [case("expand_v2_grad", {"X": one, "Out@GRAD": X}, {"shape": [2, -1, 4]})]
    cases += [case("expand_as_v2", {"X": one}, {"target_shape": [2, 3, 4]})]
    cases += [case("expand_as_v2_grad", {"X": one, "Out@GRAD": X}, {"target_shape": [2, 3, 4]})]
    for op, name in (("tile", "repeat_times"), ("expand", "expand_times")):
        cases.append(case(op, {"X": X}, {name: [2, 1, 3]}))
        cases.append(case(f"{op}_grad", {"X": X, "Out@GRAD": real(4, 3, 12)}, {name: [2, 1, 3]}))
    cases += [case(op, {"X": X}) for op in ("fill_zeros_like", "fill_zeros_like2", "is_empty")]
    cases.append(case("fill_any_like", {"X": X}, {"value": 1.5}))
    fill = {"shape": [-1, 5], "value": 2.5, "dtype": 5}
    cases.append(case("fill_constant_batch_size_like", {"Input": X}, fill, ("float32",)))
    cases.append(case("where", {"Condition": YES, "X": X, "Y": X + 1}))
    cases.append(case("where_grad", {"Condition": YES, "X": X, "Y": X, "Out@GRAD": X}))
    cases.append(case("where_index", {"Condition": YES}))
    cases.append(case("masked_select", {"X": X, "Mask": YES}))
    cases.append(case("masked_select_grad", {"X": X, "Mask": YES, "Y@GRAD": real(int(YES.sum()))}))
    pad = {"paddings": [0, 1, 2, 0, 1, 1], "pad_value": 0.5}
    cases += [case("pad", {"X": X}, pad), case("pad_grad", {"X": X, "Out@GRAD": real(3, 5, 6)}, pad)]
    return cases


def numbers() -> list[Case]:
    y, d = real(3, 4, low=-1.0), real(2, 3, 4, high=1.0)
    cases = []
    for op in ("elementwise_max", "elementwise_min"):
        cases += [case(op, {"X": X, "Y": y}, own=True), case(f"{op}_grad", {"X": X, "Y": y, "Out@GRAD": d})]
    cases += [case("grad_add", {"X": X, "Y": d}, own=True), case("minus", {"X": X, "Y": d})]
    cases.append(case("increment", {"X": real(1)}, {"step": 2.0}))
    for op in ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"):
        cases.append(case(op, {"X": np.round(X), "Y": np.round(y)}))
    cases += [case(f"logical_{op}", {"X": YES, "Y": d > 0}) for op in ("and", "or", "xor")]
    cases.append(case("logical_not", {"X": YES}))
    odd = X.copy()
    odd[0, 0, :3] = np.nan, np.inf, -np.inf
    for op in ("isfinite", "isinf", "isnan"):
        cases += [case(op, {"X": v}) for v in (X, odd)] + [case(f"{op}_v2", {"X": odd})]
    a, b = real(2, 3, 5), real(2, 5, 4)
    cases += [case("bmm", {"X": a, "Y": b}), case("bmm_grad", {"X": a, "Y": b, "Out@GRAD": X})]
    mv = {"X": a[0], "Vec": real(5)}
    cases += [case("mv", mv), case("mv_grad", {**mv, "Out@GRAD": real(3)})]
    cases.append(case("dot", {"X": real(3, 4), "Y": y}, own=True))
    cases.append(case("dot_grad", {"X": real(3, 4), "Y": y, "Out@GRAD": real(3, 1)}, own=True))
    cases.append(case("addmm", {"Input": real(3, 4), "X": a[0], "Y": b[0]}, {"Alpha": 0.5, "Beta": 2.0}, own=True))
    for attrs in ({"axis": 1}, {"axis": -1, "reverse": True}, {"axis": 0, "exclusive": True}, {"flatten": True}):
        cases.append(case("cumsum", {"X": X}, attrs))
    for op in ("arg_max", "arg_min"):
        for attrs in ({"axis": 1}, {"axis": -1, "keepdims": True}, {"axis": 0, "flatten": True}):
            cases.append(case(op, {"X": X}, attrs))
    for op in ("reduce_all", "reduce_any"):
        for attrs in ({"dim": [1]}, {"dim": [0, 2], "keep_dim": True}, {"reduce_all": True}):
            cases.append(case(op, {"X": YES}, attrs))
    for op, name in (("logsumexp", "axis"), ("frobenius_norm", "dim")):
        cases += [case(op, {"X": X}, {name: [1]}), case(op, {"X": X}, {"reduce_all": True})]
        out = real(2, 4, low=1.0, high=3.0)
        cases.append(case(f"{op}_grad", {"X": X, "Out": out, "Out@GRAD": real(2, 4)}, {name: [1]}))
    for op, out in (("max", APART.max(1)), ("min", APART.min(1)), ("prod", (APART + 1).prod(1))):
        x = APART + 1 if op == "prod" else APART
        cases.append(case(f"reduce_{op}_grad", {"X": x, "Out": out, "Out@GRAD": real(2, 4)}, {"dim": [1]}))
    for op in ("l1_norm", "squared_l2_norm"):
        cases += [case(op, {"X": X}), case(f"{op}_grad", {"X": X, "Out@GRAD": real(1)})]
    affine = {"X": real(2, 3, 4, 5), "Scale": real(3), "Bias": real(3, high=1.0)}
    cases.append(case("affine_channel", affine, {"data_layout": "NCHW"}))
    return cases


def losses() -> list[Case]:
    x, p, d = real(6, 1), real(6, 1, low=0.1, high=0.9), real(6, 1, high=1.0)
    zero_one = (real(6, 1, low=-1.0) > 0).astype("float64")
    labels = {"Labels": zero_one}
    cases = [case("huber_loss", {"X": x, "Y": d}, {"delta": 0.7})]
    cases.append(case("huber_loss_grad", {"Residual": x, "Out@GRAD": d}, {"delta": 0.7}))
    cases += [case("hinge_loss", {"Logits": x, **labels})]
    cases += [case("hinge_loss_grad", {"Logits": x, **labels, "Loss@GRAD": d})]
    cases += [case("log_loss", {"Predicted": p, **labels}, {"epsilon": 1e-3})]
    cases += [case("log_loss_grad", {"Predicted": p, **labels, "Loss@GRAD": d}, {"epsilon": 1e-3})]
    scores = {"Label": zero_one, "Left": x, "Right": d}
    cases += [case("rank_loss", scores), case("rank_loss_grad", {**scores, "Out@GRAD": p})]
    cases.append(case("bce_loss_grad", {"X": p, "Label": zero_one, "Out@GRAD": d}))
    op = "sigmoid_cross_entropy_with_logits"
    some = np.where(np.arange(6)[:, None] == 2, -100.0, zero_one)
    cases += [case(op, {"X": x, "Label": some}), case(f"{op}_grad", {"X": x, "Label": some, "Out@GRAD": d})]
    smooth = {"epsilon": 0.1}
    cases += [case("label_smooth", {"X": real(6, 4, low=0.0)}, smooth)]
    cases += [case("label_smooth", {"X": real(6, 4, low=0.0), "PriorDist": real(1, 4, low=0.0)}, smooth)]
    cases.append(case("label_smooth_grad", {"Out@GRAD": real(6, 4)}, smooth))
    for way in ("upscale_in_train", "downgrade_in_infer"):
        attrs = {"dropout_prob": 0.25, "dropout_implementation": way}
        cases.append(case("dropout_grad", {"Out@GRAD": X, "Mask": YES.astype("uint8")}, attrs))
    return cases


def optimizers() -> list[Case]:
    base = {"Param": X, "Grad": real(2, 3, 4, high=1.0), "LearningRate": np.array([0.1])}
    state = real(2, 3, 4, low=0.1)
    cases = []
    for attrs in ({}, {"use_nesterov": True}, {"regularization_method": "l2_decay", "regularization_coeff": 0.1}):
        cases.append(case("momentum", {**base, "Velocity": state}, {"mu": 0.9, **attrs}))
    cases += [case(op, {**base, "Moment": state}) for op in ("adagrad", "decayed_adagrad")]
    adadelta = {"Param": X, "Grad": base["Grad"], "AvgSquaredGrad": state, "AvgSquaredUpdate": state / 2}
    cases.append(case("adadelta", adadelta))
    cases.append(case("adamax", {**base, "Moment": state, "InfNorm": state, "Beta1Pow": np.array([0.9])}))
    cases.append(case("rmsprop", {**base, "Moment": state, "MeanSquare": state}, {"momentum": 0.9}))
    return cases


def gradients() -> list[Case]:
    """Operators whose case rows have no table: gradients that 2.0.2 computes with other inputs, and helpers."""
    triangle = np.tril(real(2, 3, 3, low=0.5))
    cases = [case("cholesky_grad", {"Out": triangle, "Out@GRAD": real(2, 3, 3)})]
    upper = {"Out": triangle.swapaxes(1, 2).copy(), "Out@GRAD": real(2, 3, 3)}
    cases.append(case("cholesky_grad", upper, {"upper": True}))
    cases.append(case("meshgrid_grad", {"X": [real(2), real(3)], "Out@GRAD": [real(2, 3), real(2, 3, high=1.0)]}))
    cvm = {"CVM": real(4, 2), "X": real(4, 5), "Y@GRAD": real(4, 5)}
    cases.append(case("cvm_grad", cvm, {"use_cvm": True}))
    cases.append(case("fake_quantize_dequantize_abs_max", {"X": X}, {"bit_length": 6}, ("float32",)))
    cases.append(case("fake_quantize_dequantize_grad", {"Out@GRAD": X}, {}, ("float32",)))
    cases.append(case("rnn_memory_helper", {"X": X}))
    cases += sampled()
    cases.append(case("rnn_memory_helper_grad", {"Out@GRAD": X, "X": X, "Out": X}))
    return cases


def sampled() -> list[Case]:
    """Losses of sampled classes, with given samples; their gradients."""
    label, weight = np.array([[1], [4], [1]]), real(6, 4)
    base = {"Input": real(3, 4), "Label": label, "Weight": weight, "Bias": real(6), "SampleWeight": real(3, low=0.5)}
    total = {"num_total_classes": 6, "num_neg_samples": 2}
    cases = []
    for sampler in (0, 1):
        attrs = {**total, "sampler": sampler, "custom_neg_classes": [5, 1]}
        cases.append(Case("nce", base, attrs))
        ins = {**base, "SampleLogits": real(3, 3, low=0.1, high=0.9), "Cost@GRAD": real(3, 1)}
        ins["SampleLabels"] = np.array([[1, 5, 1], [4, 5, 1], [1, 5, 1]])
        cases.append(Case("nce_grad", ins, attrs))
    samples = np.array([[1, 3, 1, 2], [0, 4, 3, 2]])
    given = {"CustomizedSamples": samples, "CustomizedProbabilities": real(2, 4, low=0.1, high=0.9)}
    ins = {"Logits": real(2, 5), "Labels": samples[:, :2].copy(), **given}
    cases.append(Case("sample_logits", ins, {"num_samples": 2, "use_customized_samples": True}))
    d = {"LogitsDim": np.zeros((2, 5, 0)), "LabelsDim": np.zeros((2, 2, 0)), "Samples": samples}
    ins = {**d, "SampledLogits@GRAD": real(2, 4)}
    cases.append(Case("sample_logits_grad", ins, {"num_samples": 2}))
    step, ranks = np.array([3.0]), np.array([2.0])
    ins = {s: real(4, 5, low=-1.0 - i) for i, s in enumerate(("U", "V", "Grad", "Param"))}
    ins |= {"current_step": step, "nranks": ranks}
    for kind, nesterov in ((0, True), (1, False), (2, True)):
        attrs = {"sparsity": [0.5, 0.75], "rampup_step": 4.0, "regular_type": kind, "regular_coeff": 0.1}
        for begin in (0.0, 10.0):
            given = {**attrs, "use_nesterov": nesterov, "rampup_begin_step": begin}
            cases.append(case("dgc", ins, given, ("float32",)))
    return cases


def plain() -> list[Case]:
    found = layouts() + joins() + numbers() + losses() + optimizers() + gradients()
    for c in found:
        # Only the operator's own slots; inputs whose shape alone is read may be absent.
        c.ins = {s["name"]: c.ins[s["name"]] for s in TABLE[c.op]["inputs"] if s["name"] in c.ins}
    return found
