"""Check the compact set of batch ids against a Python set, and its memory."""

from __future__ import annotations

import random

import numpy as np
import pytest

from calmstream.consumer.tally.folding import batch_ids
from calmstream.consumer.tally.folding.batch_ids import BatchIds, as_ids, hashes
from tests.support.tally import ids_in

DICE = random.Random(7)


def draw(count: int) -> list[bytes]:
    return [DICE.randbytes(16) for _ in range(count)]


def test_it_is_the_set_that_python_has() -> None:
    ids, expected = BatchIds(), set[bytes]()
    for step in range(100):
        new = draw(DICE.choice((1, 1, 2, 17, 40, 300)))
        asked = new + DICE.sample(sorted(expected), min(len(expected), 20))
        assert ids.contains(as_ids(b"".join(asked))).tolist() == [a in expected for a in asked]
        if step % 3 == 0:
            for one in new:
                ids.add_all(as_ids(one))
        else:
            ids.add_all(as_ids(b"".join(new)))
        expected |= set(new)
        assert len(ids) == len(expected)
    assert ids_in(ids) == expected


def test_all_16_bytes_are_compared() -> None:
    ids, (one,) = BatchIds(), draw(1)
    ids.add_all(as_ids(one))
    for bit in range(128):
        other = (int.from_bytes(one, "big") ^ 1 << bit).to_bytes(16, "big")
        assert not ids.contains(as_ids(other)).any()
        assert not ids.contains(as_ids(other * 40)).any()


def test_ids_with_equal_hashes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the set with a hash that is the same for all ids: slow, but right."""
    monkeypatch.setattr(batch_ids, "hashes", lambda ids: np.zeros(len(ids), np.uint64))
    ids, known, unknown = BatchIds(), draw(200), draw(100)
    ids.add_all(as_ids(b"".join(known[:150])))
    for one in known[150:]:
        ids.add_all(as_ids(one))
    assert ids.contains(as_ids(b"".join(known + unknown))).tolist() == [True] * 200 + [False] * 100
    assert all(ids.contains(as_ids(one)).all() for one in known)
    assert not any(ids.contains(as_ids(one)).any() for one in unknown)


def test_the_hash_depends_on_every_byte_and_on_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = draw(1)
    changed = [one[:i] + bytes([one[i] ^ 1]) + one[i + 1 :] for i in range(16)]
    found = hashes(as_ids(b"".join([one, *changed])))
    assert len(set(found.tolist())) == 17
    assert [int(hashes(as_ids(each))[0]) for each in (one, *changed)] == found.tolist()
    monkeypatch.setattr(batch_ids, "_TABLES", np.roll(batch_ids._TABLES, 1))
    assert hashes(as_ids(one)).tolist() != found[:1].tolist()


@pytest.mark.parametrize("shape", ["counter", "multiples", "zeros"])
def test_chosen_ids_cost_no_more_than_random_ones(shape: str) -> None:
    """Check by the distance of ids from their first slot, not by time."""
    n = 20_000
    numbers = {
        "counter": [i.to_bytes(16, "big") for i in range(n)],
        "multiples": [(i << 64).to_bytes(16, "little") for i in range(n)],
        "zeros": [(i << 100).to_bytes(16, "big") for i in range(n)],
    }[shape]
    ids = BatchIds()
    ids.add_all(as_ids(b"".join(numbers)))
    slots = np.flatnonzero(ids._table)
    position = (ids._table[slots] & ids._position_mask).astype(np.int64) - 1
    first = ids._starts(hashes(as_ids(b"".join(numbers))[position]))
    distance = (slots - first) % ids._size
    # Linear probing at a load of 0.75 has a mean distance of 1.5.
    assert distance.mean() < 3


@pytest.mark.parametrize("n", [10_000, 16_000, 200_000, 290_000])
def test_an_id_takes_at_most_24_bytes(n: int) -> None:
    ids = BatchIds()
    for first in range(0, n, 1000):
        ids.add_all(as_ids(b"".join(draw(min(1000, n - first)))))
    # The bytearray may reserve an eighth more address space, which is not touched.
    assert (16 * len(ids) + ids._table.nbytes) / n <= 24
    assert len(ids._ids) == 16 * n
