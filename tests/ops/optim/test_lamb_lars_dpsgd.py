"""lamb, lars_momentum, dpsgd."""

import numpy as np
import paddle
from case import case, covers, real, table
from paddle import _core
from updates import EMPTY, LARGE, RATE, ROWS, f4, grad_of, positive

POWERS = [np.array([0.81]), np.array([0.998])]


def lamb(param, grad, rate, m, v, p1, p2, weight_decay, beta1=0.9, beta2=0.999, epsilon=1e-6):
    decay, b1, b2, epsilon = f4(weight_decay, beta1, beta2, epsilon)
    g = grad_of(grad)
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    step = m / (1 - p1) / (np.sqrt(v / (1 - p2)) + epsilon) + decay * param
    own, size = np.linalg.norm(param), np.linalg.norm(step)
    trust = own / size if own > 0 and size > 0 else 1
    return param - rate[0] * trust * step, m, v, p1 * b1, p2 * b2


def lambs(param, grad, **attrs):
    inputs = [param, grad, RATE, real(*param.shape, seed=2), positive(*param.shape, seed=3), *POWERS]
    return case("lamb", inputs, {"weight_decay": 0.01, **attrs}, lamb, dtypes="float32", tol=1e-4)


test_lamb = table(
    lambs(real(3, 4), real(3, 4, seed=1)),
    lambs(real(3, 4), real(3, 4, seed=1), weight_decay=0.0, beta1=0.5, beta2=0.75, epsilon=0.1),
    lambs(np.zeros((3, 4)), real(3, 4, seed=1)),
    lambs(real(200, 300), real(200, 300, seed=1)),
    lambs(real(6, 2), ROWS),
    lambs(real(4096, 40), LARGE),
    case(
        "lamb",
        [real(6, 2), EMPTY, RATE, real(6, 2), positive(6, 2), *POWERS],
        {"weight_decay": 0.1},
        lambda p, g, r, m, v, p1, p2, weight_decay: (p, m, v, p1, p2),
    ),
    case(
        "lamb",
        [real(3), real(3), RATE, real(4), real(3), *POWERS],
        {"weight_decay": 0.1},
        raises=ValueError,
        match="Moment1",
    ),
    case(
        "lamb",
        [real(3), real(3), RATE, real(3), real(3), real(2), POWERS[1]],
        {"weight_decay": 0.1},
        raises=ValueError,
        match="Beta1Pow",
    ),
)


def lars(param, grad, velocity, rate, mu, lars_coeff=0.001, lars_weight_decay=0.0005, epsilon=0.0):
    mu, coeff, decay, epsilon = f4(mu, lars_coeff, lars_weight_decay, epsilon)
    own, slope, rate = np.linalg.norm(param), np.linalg.norm(grad), rate[0]
    if decay > 0 and own > 0 and slope > 0:
        rate *= coeff * own / (slope + decay * own + epsilon)
    v = mu * velocity + rate * (grad + decay * param)
    return param - v, v


def larses(param, grad, **attrs):
    inputs = [param, grad, real(*param.shape, seed=2), RATE]
    return case("lars_momentum", inputs, {"mu": 0.5, **attrs}, lars, dtypes="float16 float32", tol=4e-3)


test_lars = table(
    larses(real(3, 4), real(3, 4, seed=1)),
    larses(real(3, 4), real(3, 4, seed=1), lars_coeff=0.5, lars_weight_decay=0.25, epsilon=0.5),
    larses(real(3, 4), real(3, 4, seed=1), lars_weight_decay=0.0),
    larses(np.zeros((3, 4)), real(3, 4, seed=1)),
    larses(real(3, 4), np.zeros((3, 4))),
    larses(real(200, 300), real(200, 300, seed=1), lars_coeff=0.5),
    case("lars_momentum", [real(3), real(3), real(4), RATE], {"mu": 0.5}, raises=ValueError, match="Velocity"),
    case("lars_momentum", [real(6, 2), ROWS, real(6, 2), RATE], {"mu": 0.5}, raises=ValueError, match="SelectedRows"),
)


def dpsgd(param, grad, rate, clip=10.0, batch_size=16.0, sigma=1.0, seed=0):
    clip, batch, sigma = f4(clip, batch_size, sigma)
    return param - rate[0] * (grad / max(1.0, np.linalg.norm(grad) / clip) + sigma * NOISE.get(seed, 0.0) / batch)


def minstd_normal(seed, dtype):
    """std::minstd_rand through std::uniform_real_distribution of libstdc++, then the polar method."""
    state = seed

    def draw():
        nonlocal state
        state = state * 48271 % 2147483647
        return state - 1

    def uniform():
        if dtype == "float64":
            low = draw()
            return np.float32((low + draw() * 2147483646.0) / 2147483646.0**2)
        return np.float32(np.float32(draw()) / np.float32(2147483646.0))

    while True:
        a, b = 2 * uniform() - 1, 2 * uniform() - 1
        s = a * a + b * b
        if 0 < s < 1:
            return float(a * np.sqrt(-2 * np.log(s) / s))


NOISE = {5: minstd_normal(5, "float64")}
test_dpsgd = table(
    case("dpsgd", [real(3, 4), real(3, 4, seed=1), RATE], {"sigma": 0.0}, dpsgd, dtypes="float16 float32"),
    case("dpsgd", [real(3, 4), real(3, 4, seed=1), RATE], {"sigma": 0.0, "clip": 0.5, "batch_size": 2.0}, dpsgd),
    case("dpsgd", [real(3, 4), real(3, 4, seed=1), RATE], {"seed": 5}, dpsgd, tol=1e-6),
    case("dpsgd", [real(3), real(4), RATE], raises=ValueError, match="Grad"),
    case("dpsgd", [real(3), real(3), real(2)], raises=ValueError, match="LearningRate"),
)


@covers("dpsgd")
def test_noise() -> None:
    """float32 draws once per number; seed 0 draws the seed, so that paddle.seed repeats it."""
    zero, rate = (_core.Tensor(np.array(v, "float32")) for v in ([0.0, 0.0], [-16.0]))
    got = _core.ops.dpsgd(zero, zero, rate, seed=5).numpy()
    np.testing.assert_allclose(got, minstd_normal(5, "float32"), rtol=1e-5)

    def drawn():
        return [_core.ops.dpsgd(zero, zero, rate).numpy()[0] for _ in range(3)]

    paddle.seed(3)
    first = drawn()
    paddle.seed(3)
    assert first == drawn() and len(set(first)) == 3
