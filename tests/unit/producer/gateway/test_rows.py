"""Reports become rows and batches."""

from __future__ import annotations

import numpy as np

from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.wire.batch import Batch, decode_batch
from calmstream.producer.gateway.rows import batch_of_rows, row_of
from tests.support.attacks.fuzzing import plan_of


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
