"""InMemoryDataset.global_shuffle over three joined processes, and over trainers connected by Gloo only."""

from __future__ import annotations

from collections import Counter

import pytest
import shuffling


@pytest.mark.parametrize("by_id, by_store", [(False, False), (True, False), (False, True)])
def test_every_instance_is_kept(three, tmp_path, by_id, by_store):
    answers = three.run(shuffling.shuffled, str(tmp_path), by_id, by_store)
    wanted = Counter((i + 1, r + 1, r + 0.5, float(i)) for r in range(3) for i in range(shuffling.LINES // (r + 1)))
    assert sum((Counter(found) for _, found, _, _ in answers), Counter()) == wanted
    total = sum(wanted.values())
    for world, found, here, everywhere in answers:
        assert (world, here, everywhere) == (3, len(found), total)
        assert abs(len(found) - total / 3) < total / 10  # about as many each
        assert {source for _, source, _, _ in found} == {1, 2, 3}
        assert [i for i, *_ in found] != sorted(i for i, *_ in found)
    if by_id:
        one, two, three_ = ({i for i, *_ in found} for _, found, _, _ in answers)
        assert not (one & two or one & three_ or two & three_)
