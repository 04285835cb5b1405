"""Calls of operators that have a CUDA launcher, with operands that are random but the same in every run."""

from __future__ import annotations

import numpy as np
from calls import Case, real
from cases_plain import plain
from paddle import _core, _cuda
from paddle._cuda import formula
from paddle._cuda.host import PASSED_ON

TABLE = {op["type"]: op for op in _core.op_table()}
TOL = {"float64": 1e-11, "float32": 3e-5, "float16": 4e-3}


def ids(*shape: int, high: int, dtype: str = "int64") -> np.ndarray:
    return np.random.default_rng(high).integers(0, high, shape).astype(dtype)


def formulas() -> list[Case]:
    """A case for each operator with a formula row, with operands in the domain of all of them."""
    cases = []
    for op in formula.LAUNCHERS:
        row = formula.rows()[op]
        slots = [formula._SLOTS[x] for x in row["inputs"]]
        # Operands with different values: the last dimension is sliced differently.
        high = 0.95 if op.startswith(("asin", "acos")) else 1.6
        ins = {slot: real(3, 700 + i, low=0.05, high=high)[:, :700] for i, slot in enumerate(slots)}
        required = {a["name"]: 0.7 for a in TABLE[op]["attrs"] if a["required"]}
        attrs = {"min": 0.3, "max": 1.1} if "min" in row["params"] else required
        cases.append(Case(op, ins, attrs, ("float64", "float32", "float16")))
    x, d = real(3, 700), real(3, 701)[:, :700]
    cases += [Case(op, {"X": x}) for op in ("relu", "tanh", "sigmoid", "leaky_relu", "softplus", "erf", "abs")]
    cases += [Case("gelu", {"X": x}, {"approximate": a}) for a in (False, True)]
    cases += [Case("gelu_grad", {"X": x, "Out@GRAD": d}, {"approximate": a}) for a in (False, True)]
    cases += [Case("scale", {"X": x}, {"scale": 1.5, "bias": 0.25, "bias_after_scale": a}) for a in (False, True)]
    return cases


def explicit() -> list[Case]:
    half = ("float64", "float32", "float16")
    x = real(4, 33, 5)
    cases = [Case(op, {"X": x}, {"axis": a}, half) for op in ("softmax", "log_softmax") for a in (-1, 1, 0)]
    cases += [Case("softmax", {"X": real(3, 1000, low=-90, high=90)})]
    cases += [Case("softmax_grad", {"Out": real(4, 33, 5, low=0.0), "Out@GRAD": x}, {"axis": a}) for a in (-1, 1)]
    cases += [Case("log_softmax_grad", {"Out": real(4, 33, 5, high=0.0), "Out@GRAD": x}, {"axis": a}) for a in (-1, 1)]
    # Long columns and runs are reduced in chunks.
    columns = [({"X": real(2, 700, 3)}, [1]), ({"X": real(300, 40)}, [0])]
    cases += [Case(op, x, {"dim": d}, half) for op in ("reduce_sum", "reduce_max") for x, d in columns]
    cases += [Case("reduce_mean", {"X": real(2, 20000)}, {"dim": [1]}, half)]
    tall = {"X": real(600, 6), "Mean": real(600, high=0.5), "Variance": real(600, low=0.5), "Scale": real(6)}
    tall |= {"Bias": real(6, high=1.0), "Y@GRAD": real(600, 6, high=1.0)}
    cases.append(Case("layer_norm_grad", tall, {"begin_norm_axis": 1, "epsilon": 1e-3}))
    for axis, rest in ((1, (33, 5)), (2, (5,))):
        n = int(np.prod(rest))
        rows = 4 if axis == 1 else 4 * 33
        for affine in (True, False):
            more = {"Scale": real(n), "Bias": real(n, high=1.0)} if affine else {}
            cases.append(Case("layer_norm", {"X": x, **more}, {"begin_norm_axis": axis, "epsilon": 1e-3}))
            ins = {"X": x, "Mean": real(rows, high=0.5), "Variance": real(rows, low=0.5), **more}
            ins["Y@GRAD"] = real(4, 33, 5, high=1.0)
            cases.append(Case("layer_norm_grad", ins, {"begin_norm_axis": axis, "epsilon": 1e-3}))
    for affine in (True, False):
        scale = {"Scale": real(33)} if affine else {}
        bias = {"Bias": real(33, high=1.0)} if affine else {}
        cases.append(Case("instance_norm", {"X": x, **scale, **bias}, {"epsilon": 1e-3}))
        ins = {"X": x, "SavedMean": real(4 * 33, high=0.5), "SavedVariance": real(4 * 33, low=0.5), **scale}
        cases.append(Case("instance_norm_grad", {**ins, "Y@GRAD": real(4, 33, 5, high=1.0)}, {}))
    for op in ("reduce_sum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min"):
        for dim in ([2], [1], [0, 1], [0, 2], [1, 2]):
            cases.append(Case(op, {"X": real(3, 7, 5)}, {"dim": dim, "keep_dim": dim == [1]}, half))
        cases.append(Case(op, {"X": real(3, 7, 5)}, {"reduce_all": True}))
    cases.append(Case("reduce_sum", {"X": real(2, 40000)}, {"dim": [1]}))
    whole = ids(5, 6, high=9, dtype="int32")
    cases += [Case(op, {"X": whole}, {"dim": [1]}, ("int32",)) for op in ("reduce_sum", "reduce_max")]
    cases += [Case("mean", {"X": real(5, 9)}), Case("mean", {"X": real(1, 40000)})]
    for op in ("lookup_table", "lookup_table_v2"):
        for dtype in ("int64", "int32"):
            i = ids(4, 6, 1, high=11, dtype=dtype)
            for padding in (-1, 3):
                cases.append(Case(op, {"W": real(11, 40), "Ids": i}, {"padding_idx": padding}, half))
                out = (4, 6, 40) if op == "lookup_table" else (4, 6, 1, 40)
                ins = {"W": real(11, 40), "Ids": i, "Out@GRAD": real(*out)}
                cases.append(Case(f"{op}_grad", ins, {"padding_idx": padding}))
    return cases


def by_cupy() -> list[Case]:
    x, y, d = real(2, 3, 4), real(3, 4, low=0.5), real(2, 3, 4, high=1.0)
    cases = []
    for op in ("elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div"):
        for b, axis in ((y, -1), (real(2, 3, 4, low=0.5), -1), (real(3, low=0.5), 1), (real(2, 1, 4, low=0.5), -1)):
            cases.append(Case(op, {"X": x, "Y": b}, {"axis": axis}, own=b.shape[1:] != (1, 4)))
            ins = {"X": x, "Y": b, "Out": real(2, 3, 4, low=0.1), "Out@GRAD": d}
            slots = [s["name"] for s in TABLE[f"{op}_grad"]["inputs"]]
            cases.append(
                Case(
                    f"{op}_grad",
                    {s: ins[s] for s in slots},
                    {"axis": axis},
                    own=op == "elementwise_mul" and b.shape == x.shape,
                )
            )
    a, b = real(2, 5, 3), real(2, 3, 4)
    cases.append(Case("matmul_v2", {"X": a, "Y": b}, own=False))
    cases.append(Case("matmul_v2", {"X": a, "Y": b[0].T.copy()}, {"trans_y": True}, own=False))
    for tx in (False, True):
        for ty in (False, True):
            ins = {"X": a.swapaxes(1, 2).copy() if tx else a, "Y": b[0].T.copy() if ty else b[0]}
            ins["Out@GRAD"] = real(2, 5, 4)
            cases.append(Case("matmul_v2_grad", ins, {"trans_x": tx, "trans_y": ty}, own=tx))
            attrs = {"transpose_X": tx, "transpose_Y": ty, "alpha": 0.5}
            cases.append(Case("matmul_grad", ins, attrs, own=tx))
    cases.append(Case("matmul", {"X": a, "Y": b}, {"alpha": 2.0}, own=False))
    cases.append(Case("mul", {"X": real(2, 3, 4), "Y": real(12, 5)}, {"x_num_col_dims": 1}, own=False))
    ins = {"X": real(2, 3, 4), "Y": real(12, 5), "Out@GRAD": real(2, 5)}
    cases.append(Case("mul_grad", ins, {"x_num_col_dims": 1}, own=False))
    for op in ("reduce_sum_grad", "reduce_mean_grad"):
        cases.append(Case(op, {"X": x, "Out@GRAD": real(2, 4)}, {"dim": [1]}, own=False))
    cases.append(Case("mean_grad", {"X": x, "Out@GRAD": real(1)}, own=False))
    cases.append(Case("sum", {"X": [real(3, 4), real(3, 4, high=1.0), real(3, 4, high=0.5)]}, own=False))
    return cases


def run(case: Case, dtype: str, place) -> list:
    """The operator's results on a place, as arrays (None for absent outputs)."""
    import paddle

    def tensor(a):
        if a is None:
            return None
        if isinstance(a, list):
            return [tensor(v) for v in a]
        return paddle.to_tensor(a.astype(dtype) if a.dtype.kind == "f" else a, place=place)

    ins = {slot: tensor(a) for slot, a in case.ins.items()}
    results = getattr(_core.ops, case.op)(*[ins.get(s["name"]) for s in TABLE[case.op]["inputs"]], **case.attrs)
    results = results if isinstance(results, tuple) else (results,)
    results = [t for result in results for t in (result if isinstance(result, list) else [result])]
    device = -1 if place.is_cpu_place() else 0
    for t in results:
        assert t is None or t.size == 0 or _core.device_of(t) == device, (
            f"{case.op}: a result is on device {_core.device_of(t)}"
        )
    return [None if t is None else t.numpy() for t in results]


def compare(case: Case, place) -> None:
    """Compares the results on `place` with those of the CPU kernels."""
    import paddle

    for dtype in case.dtypes:
        want, got = run(case, dtype, paddle.CPUPlace()), run(case, dtype, place)
        for w, g in zip(want, got, strict=True):
            if w is None:
                continue
            what, tol = f"{case.op} {dtype}", TOL.get(dtype, 0)
            assert g.dtype == w.dtype and g.shape == w.shape, f"{what}: {g.dtype}{g.shape} for {w.dtype}{w.shape}"
            scale = max(1.0, float(np.abs(w).max(initial=0)))
            np.testing.assert_allclose(g, w, rtol=tol, atol=tol * scale, err_msg=what)


ALL = formulas() + explicit() + by_cupy() + plain()
assert {c.op for c in ALL} <= set(_cuda.LAUNCHERS) | PASSED_ON
