"""Check by chi-square tests how devices are distributed over views and time slots.

Significance level 1e-6, fixed seeds.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from calmstream.estimators.plan import Guarantee
from calmstream.producer.device.assignment import GROUP, SLOT
from calmstream.producer.simulation.places import keyed_words, places
from tests.support.producer import LINEAGE, make_plan

ALPHA = 1e-6
N = 100_000
W = 5
PLAN = make_plan(guarantee=Guarantee("w-event", W), windows=10)


def devices(seed: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (N, 16), np.uint8)


def test_views_get_their_shares() -> None:
    counts = np.bincount(places(PLAN, devices(1)).flat, minlength=4)
    expected = N * np.array([5, 3, 1, 2]) / 11
    assert stats.chisquare(counts, expected).pvalue > ALPHA


def test_slots_are_uniform() -> None:
    counts = np.bincount(places(PLAN, devices(2)).slot, minlength=W)
    assert stats.chisquare(counts).pvalue > ALPHA


def test_slots_are_independent_of_views() -> None:
    where = places(PLAN, devices(3))
    table = np.zeros((4, W), np.int64)
    np.add.at(table, (where.flat, where.slot), 1)
    assert stats.chi2_contingency(table).pvalue > ALPHA


@pytest.mark.slow
def test_lineages_are_independent_of_each_other() -> None:
    secrets = devices(4)
    other = make_plan(lineage="f" * 32)
    table = np.zeros((4, 4), np.int64)
    np.add.at(table, (places(PLAN, secrets).flat, places(other, secrets).flat), 1)
    assert stats.chi2_contingency(table).pvalue > ALPHA


@pytest.mark.slow
def test_secrets_that_differ_in_one_bit_have_unrelated_words() -> None:
    secrets = devices(5)
    twins = secrets.copy()
    twins[:, 15] ^= 1
    table = np.zeros((4, 4), np.int64)
    np.add.at(table, (places(PLAN, secrets).flat, places(PLAN, twins).flat), 1)
    assert stats.chi2_contingency(table).pvalue > ALPHA


def test_every_bit_of_a_word_is_fair() -> None:
    for purpose in (GROUP, SLOT):
        words = keyed_words(devices(6), LINEAGE, purpose)
        ones = np.array([np.count_nonzero(words >> np.uint64(b) & np.uint64(1)) for b in range(64)])
        worst = np.abs(ones - N / 2).max() / np.sqrt(N / 4)
        # 64 bits share alpha.
        assert 2 * stats.norm.sf(worst) > ALPHA / 64
