"""softmax and log_softmax."""

import numpy as np
from case import case, real, table

SOME = "float16 float32"


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x, axis=-1):
    return np.log(softmax(x, axis))


test_softmax = table(
    case("softmax", [real(3, 4)], expected=softmax, grad="X", dtypes=SOME),
    case("softmax", [real(3, 4, 2)], {"axis": 1}, softmax, grad="X", dtypes=SOME),
    case("softmax", [real(3, 4, 2)], {"axis": 0}, softmax, grad="X"),
    case("softmax", [real(5)], expected=softmax, grad="X"),
    case("softmax", [real(3, 40) * 100], expected=softmax, dtypes="float32"),
    case("softmax", [real(0, 4)], expected=np.zeros((0, 4))),
    case("softmax", [real(3, 4)], {"axis": 2}, raises=ValueError),
)

test_log_softmax = table(
    case("log_softmax", [real(3, 4)], expected=log_softmax, grad="X", dtypes=SOME),
    case("log_softmax", [real(3, 4, 2)], {"axis": 1}, log_softmax, grad="X", dtypes=SOME),
    case("log_softmax", [real(5)], expected=log_softmax, grad="X"),
    case("log_softmax", [real(0, 4)], expected=np.zeros((0, 4))),
    case("log_softmax", [real(3, 4)], {"axis": 2}, raises=ValueError),
    case("log_softmax", [np.ones((2, 2), "int64")], raises=NotImplementedError),
)
