"""adagrad, decayed_adagrad, adadelta, adamax, rmsprop."""

import numpy as np
from case import case, real, table
from updates import EMPTY, LARGE, RATE, ROWS, SOME, f4, grad_of, lazily, positive


def adagrad(param, grad, moment, rate, epsilon=1e-6):
    (epsilon,), g = f4(epsilon), grad_of(grad)
    m = moment + g * g
    return lazily([param - rate[0] * g / (np.sqrt(m) + epsilon), m], [param, moment], grad)


def squares(op, formula, param, grad, dtypes="float32", **attrs):
    """A case of an operator with one accumulator of squares."""
    inputs = [param, grad, positive(*param.shape, seed=2), RATE]
    return case(op, inputs, attrs, formula, dtypes=dtypes, tol=8e-3 if "16" in dtypes else None)


test_adagrad = table(
    squares("adagrad", adagrad, real(3, 4), real(3, 4, seed=1), SOME),
    squares("adagrad", adagrad, real(3, 4), real(3, 4, seed=1), epsilon=0.1),
    squares("adagrad", adagrad, real(200, 300), real(200, 300, seed=1)),
    squares("adagrad", adagrad, real(6, 2), ROWS, epsilon=0.01),
    squares("adagrad", adagrad, real(6, 2), EMPTY),
    squares("adagrad", adagrad, real(4096, 40), LARGE),
    case("adagrad", [real(0, 4), real(0, 4), real(0, 4), RATE], expected=adagrad),
    case("adagrad", [real(3), real(4), real(3), RATE], raises=ValueError, match="Param and Grad must have the same"),
    case("adagrad", [real(3), real(3), real(4), RATE], raises=ValueError, match="Param and Moment must have the same"),
    case("adagrad", [real(3), real(3), real(3), real(2)], raises=ValueError, match="one element"),
)


def decayed(param, grad, moment, rate, decay=0.95, epsilon=1e-6):
    decay, epsilon = f4(decay, epsilon)
    m = decay * moment + (1 - decay) * grad * grad
    return param - rate[0] * grad / (np.sqrt(m) + epsilon), m


test_decayed_adagrad = table(
    squares("decayed_adagrad", decayed, real(3, 4), real(3, 4, seed=1), SOME),
    squares("decayed_adagrad", decayed, real(3, 4), real(3, 4, seed=1), decay=0.5, epsilon=0.1),
    case("decayed_adagrad", [real(3), real(4), real(3), RATE], raises=ValueError, match="same shape"),
    case("decayed_adagrad", [real(6, 2), ROWS, real(6, 2), RATE], raises=ValueError, match="SelectedRows"),
)


def adadelta(param, grad, gradients, steps, rho=0.95, epsilon=1e-6):
    rho, epsilon = f4(rho, epsilon)
    s = rho * gradients + (1 - rho) * grad * grad
    step = -np.sqrt((steps + epsilon) / (s + epsilon)) * grad
    return param + step, s, rho * steps + (1 - rho) * step * step


STATES = [positive(3, 4, seed=2), positive(3, 4, seed=3)]
test_adadelta = table(
    case("adadelta", [real(3, 4), real(3, 4, seed=1), *STATES], expected=adadelta, dtypes=SOME, tol=8e-3),
    case("adadelta", [real(3, 4), real(3, 4, seed=1), *STATES], {"rho": 0.5, "epsilon": 0.1}, adadelta),
    case("adadelta", [real(3, 4), real(3, 4, seed=1), *STATES], expected=adadelta, dtypes="float32"),
    case("adadelta", [real(3), real(3), real(4), real(3)], raises=ValueError, match="AvgSquaredGrad"),
)


def adamax(param, grad, rate, moment, norm, power, beta1=0.9, beta2=0.999, epsilon=1e-8):
    beta1, beta2, epsilon = f4(beta1, beta2, epsilon)
    m = beta1 * moment + (1 - beta1) * grad
    n = np.maximum(np.abs(grad), beta2 * norm + epsilon)
    return param - rate[0] / (1 - power[0]) * m / n, m, n


POWER = np.array([0.81])
test_adamax = table(
    case("adamax", [real(3, 4), real(3, 4, seed=1), RATE, *STATES, POWER], expected=adamax, dtypes=SOME, tol=8e-3),
    case("adamax", [real(3, 4), real(3, 4, seed=1), RATE, *STATES, POWER], expected=adamax, dtypes="float32"),
    case(
        "adamax",
        [real(3, 4), real(3, 4, seed=1), RATE, *STATES, POWER],
        {"beta1": 0.5, "beta2": 0.25, "epsilon": 0.1},
        adamax,
    ),
    case("adamax", [real(3), real(3), RATE, real(3), real(3), real(2)], raises=ValueError, match="Beta1Pow"),
    case("adamax", [real(3), real(3), RATE, real(3), real(4), POWER], raises=ValueError, match="InfNorm"),
)


def rmsprop(param, square, *rest, epsilon=1e-10, decay=0.9, momentum=0.0, centered=False):
    epsilon, rho, mu = f4(epsilon, decay, momentum)
    mean = rest[0] if len(rest) == 4 else None
    rate, grad, moment = rest[-3:]
    g = grad_of(grad)
    s = rho * square + (1 - rho) * g * g
    under = s + epsilon
    if centered:
        mean = rho * mean + (1 - rho) * g
        under = under - mean * mean
    m = mu * moment + rate[0] * g / np.sqrt(under)
    return param - m, m, s, mean


def rms(grad, shape=(3, 4), mean=None, dtypes="float32", **attrs):
    inputs = [real(*shape), 1 + positive(*shape, seed=2), mean, RATE, grad, real(*shape, seed=3)]
    # Without MeanGrad, MeanGradOut is empty, so a Program cannot fetch it.
    return case(
        "rmsprop", inputs, attrs, rmsprop, dtypes=dtypes, tol=8e-3 if "16" in dtypes else None, static=mean is not None
    )


MEAN = real(3, 4, low=0, high=0.5, seed=4)
test_rmsprop = table(
    rms(real(3, 4, seed=1), mean=MEAN, dtypes=SOME),
    rms(real(3, 4, seed=1)),
    rms(real(3, 4, seed=1), mean=MEAN, momentum=0.5, decay=0.75, epsilon=0.1),
    rms(real(3, 4, seed=1), mean=MEAN, momentum=0.5, centered=True),
    rms(real(200, 300, seed=1), (200, 300), momentum=0.5),
    rms(ROWS, (6, 2), momentum=0.5),
    rms(ROWS, (6, 2), real(6, 2, seed=4), momentum=0.5),
    rms(ROWS, (6, 2), real(6, 2, low=0, high=0.5, seed=4), centered=True, momentum=0.5),
    rms(LARGE, (4096, 40), momentum=0.5),
    case(
        "rmsprop",
        [real(6, 2), positive(6, 2), None, RATE, EMPTY, real(6, 2)],
        expected=lambda p, s, r, g, m: (p, m, s, None),
        static=False,
    ),
    case(
        "rmsprop",
        [real(3), real(3), None, RATE, real(3), real(3)],
        {"centered": True},
        raises=RuntimeError,
        match="MeanGrad",
    ),
    case("rmsprop", [real(3), real(4), None, RATE, real(3), real(3)], raises=ValueError, match="MeanSquare"),
    case("rmsprop", [real(3), real(3), None, RATE, real(3), real(4)], raises=ValueError, match="Moment"),
)
