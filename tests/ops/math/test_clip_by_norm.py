"""clip_by_norm of dense tensors and SelectedRows."""

import numpy as np
from case import Rows, case, real, table


def clip(x, max_norm):
    norm = np.sqrt((x**2).sum())
    return x if norm <= max_norm else x * (max_norm / norm)


ROWS = Rows([4, 1, 4], 6, real(3, 2).astype("float32"))


def of_rows(x, max_norm):
    values = np.stack([x.values[0] + x.values[2], x.values[1]]).astype("float64")
    return Rows([4, 1], 6, clip(values, max_norm).astype("float32"))


test_clip_by_norm = table(
    case("clip_by_norm", [real(4, 5)], {"max_norm": 1.0}, clip, dtypes="float32 float16"),
    case("clip_by_norm", [real(4, 5)], {"max_norm": 100.0}, clip),
    case("clip_by_norm", [real(100, 999)], {"max_norm": 2.0}, clip),
    case("clip_by_norm", [np.zeros(3)], {"max_norm": 1.0}, clip),
    case("clip_by_norm", [real(0, 3)], {"max_norm": 1.0}, clip),
    case("clip_by_norm", [ROWS], {"max_norm": 0.5}, of_rows),
    case("clip_by_norm", [real(3)], {"max_norm": 0.0}, raises=ValueError, match="max_norm"),
)
