"""Check how rows become encoded batches: content, new ids, lengths, and a uniform random order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.plan.limits import PlanLimits
from calmstream.estimators.randomness import SeededRandomness, SystemRandomness
from calmstream.estimators.view import View
from calmstream.estimators.wire.batch import MAX_BATCH_BYTES, Batch, decode_batch
from calmstream.producer.gateway.encoding import (
    batch_of_rows,
    make_batch,
    most_reports,
    permutation,
    row_of,
)
from tests.support.attacks.fuzzing import plan_of
from tests.support.producer import make_plan


def test_a_batchs_length_depends_on_the_number_of_reports_only() -> None:
    plan = make_plan()
    lengths = {
        len(make_batch(plan, 1, 0, np.zeros(7, int), plan.mechanisms[1].perturb(values, rng)).value)
        for rng in [SystemRandomness()]
        for values in (np.zeros(7, int), np.full(7, 7), np.arange(7))
        for _ in range(5)
    }
    assert len(lengths) == 1


def test_an_order_is_uniform() -> None:
    randomness = SeededRandomness(4)
    frequencies = Counter(tuple(permutation(4, randomness).tolist()) for _ in range(24_000))
    assert set(frequencies) == set(permutations(range(4)))
    # Chi-square with 23 degrees of freedom, alpha 1e-6.
    assert sum((n - 1000) ** 2 / 1000 for n in frequencies.values()) < 73


class Scripted:
    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)

    def bytes(self, count: int) -> bytes:
        answer = self._answers.pop(0)
        assert len(answer) == count
        return answer


def test_equal_words_are_drawn_again() -> None:
    tie = np.array([5, 1, 5], np.uint64).tobytes()
    clear = np.array([2, 3, 1], np.uint64).tobytes()
    assert permutation(3, Scripted(tie, clear)).tolist() == [2, 0, 1]


def wide_plan(mechanism: str) -> Plan:
    group = Group(standard(mechanism, "1", 4096), (View(tuple(range(12))),), (1,))
    return replace(
        make_plan(),
        domain=Domain.binary(12),
        groups=(group,),
        limits=PlanLimits(batch_reports=65_535, batches=1 << 14),
    )


@pytest.mark.parametrize("mechanism", ["grr", "oue"])
def test_the_largest_batch_fits_into_a_record(mechanism: str) -> None:
    plan = wide_plan(mechanism)
    n = most_reports(plan, 0)
    values = np.full(n, 4095)
    columns = plan.mechanisms[0].perturb(values, SeededRandomness(1))
    if mechanism == "grr":
        columns = {"v": values}
    body = make_batch(plan, 0, 0, np.zeros(n, int), columns).value
    assert len(body) <= MAX_BATCH_BYTES - 4096
    assert n == 65_535 or len(body) > 0.98 * (MAX_BATCH_BYTES - 4096)


def test_rows_of_every_mechanism_become_the_batch_that_they_came_from() -> None:
    plan = plan_of()
    for g, mechanism in enumerate(plan.mechanisms):
        values = np.arange(20) % mechanism.cells
        columns = mechanism.perturb(values, SeededRandomness(g))
        view = np.arange(20) % len(plan.groups[g].views)
        read = [
            row_of(
                plan, g, Batch(1, 1, view[i : i + 1], {n: c[i : i + 1] for n, c in columns.items()})
            )
            for i in range(20)
        ]
        encoded = batch_of_rows(plan, g, 1, read)
        batch = decode_batch(plan, g, encoded.batch_id, encoded.value)
        assert (batch.n, batch.period, encoded.n, encoded.group) == (20, 1, 20, g)
        assert batch.view is None or batch.view.tolist() == view.tolist()
        for name, column in columns.items():
            assert np.array_equal(batch.columns[name], column)
