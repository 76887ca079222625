from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calmstream.estimators.plan import Guarantee
from calmstream.producer.device.assignment import GROUP, SLOT, WORD_BITS, parts, places
from tests.support.producer import LINEAGE, make_plan

ALPHA = 1e-6
N = 100_000
W = 5
PLAN = make_plan(guarantee=Guarantee("w-event", W), windows=10)


def devices(seed: int) -> list[bytes]:
    raw = np.random.default_rng(seed).bytes(16 * N)
    return [raw[at : at + 16] for at in range(0, len(raw), 16)]


def test_views_get_their_shares() -> None:
    counts = np.bincount(places(PLAN, devices(1))[0], minlength=4)
    expected = N * np.array([5, 3, 1, 2]) / 11
    assert stats.chisquare(counts, expected).pvalue > ALPHA


def test_slots_are_uniform() -> None:
    counts = np.bincount(places(PLAN, devices(2))[1], minlength=W)
    assert stats.chisquare(counts).pvalue > ALPHA


def test_slots_are_independent_of_views() -> None:
    where = places(PLAN, devices(3))
    table = np.zeros((4, W), np.int64)
    np.add.at(table, where, 1)
    assert stats.chi2_contingency(table).pvalue > ALPHA


@pytest.mark.slow
def test_lineages_are_independent_of_each_other() -> None:
    secrets = devices(4)
    other = make_plan(lineage="f" * 32)
    table = np.zeros((4, 4), np.int64)
    np.add.at(table, (places(PLAN, secrets)[0], places(other, secrets)[0]), 1)
    assert stats.chi2_contingency(table).pvalue > ALPHA


def test_every_bit_of_a_word_is_fair() -> None:
    for purpose in (GROUP, SLOT):
        words = np.array(parts(devices(6), LINEAGE, purpose, 1 << WORD_BITS), np.uint64)
        ones = np.array([np.count_nonzero(words >> np.uint64(b) & np.uint64(1)) for b in range(64)])
        worst = np.abs(ones - N / 2).max() / np.sqrt(N / 4)
        # 64 bits share alpha.
        assert 2 * stats.norm.sf(worst) > ALPHA / 64
