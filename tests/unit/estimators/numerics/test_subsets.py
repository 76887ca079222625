"""Check elementary symmetric polynomials and evenly spaced samples against the list of subsets."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import prod

import pytest

from calmstream.estimators.numerics.subsets import elementary, even_sample


def test_elementary_sums_the_products_of_all_subsets() -> None:
    values = [2, 3, 5, 7]
    every = [sum(prod(s) for s in combinations(values, size)) for size in range(6)]
    assert elementary(values, 5) == every


@pytest.mark.parametrize(("d", "size", "most"), [(6, 2, 100), (6, 2, 15), (6, 2, 14), (20, 3, 24)])
def test_a_sample_is_evenly_spaced_and_never_too_large(d: int, size: int, most: int) -> None:
    every = list(combinations(range(d), size))
    sample = list(even_sample(d, size, most))
    assert sample[0] == every[0]
    assert 0 < len(sample) <= most
    gaps = {every.index(b) - every.index(a) for a, b in pairwise(sample)}
    assert len(gaps) == 1
    assert (sample == every) == (len(every) <= most)
