"""ftrl, proximal_gd, proximal_adagrad."""

import numpy as np
from case import case, real, table
from updates import EMPTY, LARGE, RATE, ROWS, f4, grad_of, lazily, positive


def ftrl(param, squared, linear, grad, rate, l1=0.0, l2=0.0, lr_power=-0.5):
    l1, l2, power = f4(l1, l2, lr_power)
    l1, l2, g = l1 + 1e-10, l2 + 1e-10, grad_of(grad)
    s = squared + g * g
    sums = linear + g - (s**-power - squared**-power) / rate[0] * param
    new = np.where(np.abs(sums) > l1, (l1 * np.sign(sums) - sums) / (s**-power / rate[0] + 2 * l2), 0)
    return lazily([new, s, sums], [param, squared, linear], grad)


def ftrls(grad, shape=(3, 4), **attrs):
    inputs = [real(*shape), positive(*shape, seed=2), real(*shape, seed=3), grad, RATE]
    return case("ftrl", inputs, attrs, ftrl, dtypes="float32", tol=1e-4)


test_ftrl = table(
    ftrls(real(3, 4, seed=1)),
    ftrls(real(3, 4, seed=1), l1=0.5, l2=0.25),
    ftrls(real(3, 4, seed=1), l1=0.5, l2=0.25, lr_power=-0.75),
    ftrls(real(200, 300, seed=1), (200, 300), l1=0.1),
    ftrls(ROWS, (6, 2), l1=0.1, l2=0.2),
    ftrls(ROWS, (6, 2), l1=0.1, lr_power=-0.25),
    ftrls(LARGE, (4096, 40), l1=0.1),
    ftrls(EMPTY, (6, 2)),
    case("ftrl", [real(3), real(4), real(3), real(3), RATE], raises=ValueError, match="SquaredAccumulator"),
    case("ftrl", [real(3), real(3), real(3), real(4), RATE], raises=ValueError, match="Grad"),
    case("ftrl", [real(3), real(3), real(3), real(3), real(2)], raises=ValueError, match="LearningRate"),
)


def prox(param, rate, l1, l2):
    l1, l2 = f4(l1, l2)
    if l1 > 0:
        param = np.sign(param) * np.maximum(np.abs(param) - rate[0] * l1, 0)
    return param / (1 + rate[0] * l2)


def gd(param, grad, rate, l1=0.0, l2=0.0):
    return prox(param - rate[0] * grad, rate, l1, l2)


def adagrad(param, moment, grad, rate, l1=0.0, l2=0.0):
    m = moment + grad * grad
    return prox(param - rate[0] * grad / np.sqrt(m), rate, l1, l2), m


WEIGHTS = [{}, {"l1": 2.0}, {"l2": 0.5}, {"l1": 2.0, "l2": 0.5}]
test_proximal = table(
    *(case("proximal_gd", [real(3, 4), real(3, 4, seed=1), RATE], a, gd, dtypes="float16 float32") for a in WEIGHTS),
    *(
        case("proximal_adagrad", [real(3, 4), positive(3, 4), real(3, 4, seed=1), RATE], a, adagrad, dtypes="float32")
        for a in WEIGHTS
    ),
    case("proximal_gd", [real(3), real(4), RATE], raises=ValueError, match="Grad"),
    case("proximal_gd", [real(3), real(3), real(2)], raises=ValueError, match="LearningRate"),
    case("proximal_adagrad", [real(3), real(4), real(3), RATE], raises=ValueError, match="Moment"),
)
