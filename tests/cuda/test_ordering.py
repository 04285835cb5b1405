"""The stable order of ids, in one chunk, in a merge of chunks, and in several merges."""

import numpy as np
import pytest
from paddle._cuda import ordering
from paddle._cuda.call import Call


@pytest.mark.parametrize("ways", [64, 2])
@pytest.mark.parametrize("n", [1, 1024, 1025, 5000])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_equal_ids_keep_their_order(n, dtype, ways, shim, monkeypatch):
    monkeypatch.setattr(ordering, "WAYS", ways)
    ids = np.random.default_rng(n).integers(-2, 40, n).astype(dtype)
    call = Call(shim, "lookup_table_v2_grad", {}, {}, {}, {}, {})
    ranked, order = ordering.ordered(call, ids)
    key = np.where(ids < 0, 1 << 40, ids.astype("int64"))
    want = np.argsort(key, kind="stable")
    assert order.tolist() == want.tolist()
    assert ranked.tolist() == np.where(ids < 0, -1, ids)[want].tolist()
