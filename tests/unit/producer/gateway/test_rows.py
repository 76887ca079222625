"""Reports become rows and batches; what cannot be encoded is left out alone."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest

from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.wire.batch import Batch, decode_batch
from calmstream.producer.gateway import rows
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.rows import Row, batch_of_rows, batches_of_rows, row_of
from tests.support.attacks.fuzzing import plan_of
from tests.support.producer import make_plan

PLAN = make_plan()


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


def only_if(fits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let encoding fail for any set of cells that does not fit."""
    real = rows.make_batch

    def failing_make_batch(*arguments: Any) -> EncodedBatch:
        if not fits(arguments[-1]["v"].tolist()):
            raise OverflowError("a defect")
        return real(*arguments)

    monkeypatch.setattr(rows, "make_batch", failing_make_batch)


def sealed_apart(cells: list[int]) -> tuple[list[list[int]], int]:
    """Encode rows; return the cells of every batch, and how many rows were dropped."""
    dropped: list[int] = []
    made: list[Row] = [(0, (value,)) for value in cells]
    out = batches_of_rows(PLAN, 0, 0, made, dropped.append)
    batches = [decode_batch(PLAN, 0, one.batch_id, one.value) for one in out]
    return [batch.columns["v"].tolist() for batch in batches], sum(dropped)


@pytest.mark.parametrize("cells", [[7], [1, 7], [7, 1, 2, 7, 3], [7, 7, 7], [1, 2, 3]])
def test_only_a_row_that_cannot_be_encoded_is_left_out(
    cells: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    only_if(lambda values: 7 not in values, monkeypatch)
    sound = [value for value in cells if value != 7]
    assert sealed_apart(cells) == ([sound] if sound else [], cells.count(7))


def test_rows_that_fail_only_together_are_encoded_separately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only_if(lambda values: len(values) <= 2 and 7 not in values, monkeypatch)
    batches, dropped = sealed_apart([1, 2, 7, 3, 4, 5])
    assert sorted(chain(*batches)) == [1, 2, 3, 4, 5]
    assert (max(map(len, batches)), dropped) == (2, 1)


def test_nothing_at_all_can_be_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    only_if(lambda _: False, monkeypatch)
    assert sealed_apart(list(range(9))) == ([], 9)
    assert sealed_apart([]) == ([], 0)
