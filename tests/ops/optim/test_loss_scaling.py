"""check_finite_and_unscale, update_loss_scaling."""

import numpy as np
from case import case, real, table

SCALE = np.array([4.0])
BAD = real(2, 3)
BAD[1, 2] = np.inf
NAN = real(5)
NAN[0] = np.nan


def unscale(xs, scale):
    outs, found = [], False
    for x in xs:
        found = found or not np.isfinite(x).all()
        outs.append(x * (0 if found else 1 / scale[0]))
    return outs, np.array([found])


test_unscale = table(
    case("check_finite_and_unscale", [[real(2, 3), real(5)], SCALE], expected=unscale, dtypes="float16 float32"),
    case("check_finite_and_unscale", [[real(2, 3), BAD, real(5)], SCALE], expected=unscale, dtypes="float32"),
    case("check_finite_and_unscale", [[NAN, real(2)], SCALE], expected=unscale),
    case("check_finite_and_unscale", [[real(300, 400)], SCALE], expected=unscale, dtypes="float32"),
    case("check_finite_and_unscale", [[real(2)], real(2)], raises=ValueError, match="Scale"),
)

RATIOS = {"incr_every_n_steps": 3, "decr_every_n_nan_or_inf": 2, "incr_ratio": 2.0, "decr_ratio": 0.5}


def steps(*values):
    return [np.array([v], "int32") for v in values]


def update(
    xs,
    found,
    scale,
    good,
    bad,
    *,
    incr_every_n_steps,
    decr_every_n_nan_or_inf,
    incr_ratio,
    decr_ratio,
    stop_update=False,
):
    if found[0]:
        xs = [0 * x if np.isfinite(x).all() else np.zeros_like(x) for x in xs]
    if stop_update:
        return xs, scale, good, bad
    if found[0]:
        good, bad = 0 * good, bad + 1
        if bad[0] == decr_every_n_nan_or_inf:
            scale, bad = np.maximum(scale * decr_ratio, 1), 0 * bad
    else:
        good, bad = good + 1, 0 * bad
        if good[0] == incr_every_n_steps:
            scale, good = scale * incr_ratio, 0 * good
    return xs, scale, good, bad


def updates(found, good, bad, scale=SCALE, **attrs):
    inputs = [[real(2, 3), BAD], np.array([found]), scale, *steps(good, bad)]
    return case(
        "update_loss_scaling",
        inputs,
        {**RATIOS, **attrs},
        update,
        dtypes="float32",
        out_dtype={"OutGoodSteps": "int32", "OutBadSteps": "int32"},
    )


ONE = [[real(2)], np.array([False]), SCALE, *steps(0, 0)]
test_update = table(
    updates(False, 0, 1),
    updates(False, 2, 1),
    updates(True, 2, 0),
    updates(True, 2, 1),
    updates(True, 2, 1, scale=np.array([1.5])),
    updates(True, 2, 1, stop_update=True),
    updates(False, 2, 1, stop_update=True),
    # A scale that would overflow is unchanged.
    case(
        "update_loss_scaling",
        [[real(2)], np.array([False]), np.array([1.7e308]), *steps(2, 0)],
        RATIOS,
        ([real(2)], np.array([1.7e308]), *steps(0, 0)),
    ),
    case("update_loss_scaling", ONE, {**RATIOS, "incr_ratio": 1.0}, raises=ValueError, match="incr_ratio"),
    case("update_loss_scaling", ONE, {**RATIOS, "decr_ratio": 1.0}, raises=ValueError, match="decr_ratio"),
    case(
        "update_loss_scaling",
        [[real(2)], np.array([False, True]), SCALE, *steps(0, 0)],
        RATIOS,
        raises=ValueError,
        match="FoundInfinite",
    ),
    case("update_loss_scaling", [[real(2)], real(1), SCALE, *steps(0, 0)], RATIOS, raises=ValueError, match="one bool"),
)
