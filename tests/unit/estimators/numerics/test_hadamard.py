from itertools import product

import numpy as np
import pytest

from calmstream.estimators.numerics.hadamard import LEAST_TURNED, signs, transform


def matrix(size: int) -> np.ndarray:
    cells = np.arange(size)
    return signs(cells[:, None] & cells)


@pytest.mark.parametrize(
    ("size", "rows"),
    list(product([1, 2, 16, LEAST_TURNED // 2, LEAST_TURNED, 1024], [(), (1,), (3,), (2, 3)])),
)
def test_integers_are_transformed_exactly_and_the_table_stays(
    size: int, rows: tuple[int, ...]
) -> None:
    table = np.random.default_rng(size).integers(-(2**40), 2**40, (*rows, size))
    before = table.copy()
    changed = transform(table)
    assert changed.dtype == table.dtype
    np.testing.assert_array_equal(changed, table @ matrix(size).astype(np.int64))
    np.testing.assert_array_equal(table, before)
