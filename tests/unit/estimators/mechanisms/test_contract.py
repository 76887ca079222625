"""Check that what each registered mechanism states about itself agrees with its probabilities."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from calmstream.estimators.arrays import Floats
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.mechanisms.olh import OLH
from calmstream.estimators.mechanisms.registry import build, names
from tests.support.mechanisms import EXAMPLES, HASHED, SPLIT, example, matrix, output_tallies

EXACT = [key for key, spec in EXAMPLES.items() if spec["name"] not in HASHED | SPLIT]
UNEVEN = [key for key in EXACT if EXAMPLES[key]["name"] != "product-grr"]
"""Examples whose covariance is exact between cells for any frequencies."""


def answers(mechanism: Mechanism) -> Floats:
    return np.array([mechanism.estimate(tally, 1) for tally in output_tallies(mechanism)])


def exact(mechanism: Mechanism, frequencies: Floats) -> Floats:
    """Return the covariance of the estimate from one random device, by enumeration."""
    weight = frequencies @ matrix(mechanism)
    each = answers(mechanism)
    mean = weight @ each
    return np.asarray((each.T * weight) @ each - np.outer(mean, mean))


def uneven(cells: int) -> Floats:
    weights = np.arange(1.0, cells + 1.0)
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("key", EXAMPLES)
def test_fixed_total_says_whether_every_output_adds_up_to_one(key: str) -> None:
    mechanism = example(key)
    totals = answers(mechanism).sum(axis=1)
    assert mechanism.fixed_total == np.allclose(totals, 1.0, atol=1e-9)
    spread = mechanism.covariance(7, uneven(mechanism.cells)).dense()
    assert mechanism.fixed_total == (abs(spread.sum()) < 1e-9 * np.trace(spread))


@pytest.mark.parametrize("key", EXACT)
def test_the_sum_of_all_variances_is_exact(key: str) -> None:
    mechanism = example(key)
    frequencies = uneven(mechanism.cells)
    stated = np.trace(mechanism.covariance(10, frequencies).dense())
    assert stated == pytest.approx(np.trace(exact(mechanism, frequencies)) / 10, rel=1e-9)


@pytest.mark.parametrize("key", UNEVEN)
def test_the_covariance_is_exact(key: str) -> None:
    mechanism = example(key)
    frequencies = uneven(mechanism.cells)
    expected = exact(mechanism, frequencies) / 10
    stated = mechanism.covariance(10, frequencies).dense()
    np.testing.assert_allclose(stated, expected, rtol=1e-9, atol=1e-12)
    usual = Mechanism.variance(mechanism, 10, frequencies)
    np.testing.assert_allclose(usual, mechanism.variance(10, frequencies), rtol=1e-9)


SHAPED: dict[str, dict[str, Any]] = {
    "grr": {"name": "grr", "cells": 6},
    "oue": {"name": "oue", "cells": 6},
    "sue": {"name": "sue", "cells": 6},
    "hadamard-response": {"name": "hadamard-response", "cells": 6},
    "subset-selection": {"name": "subset-selection", "cells": 6, "size": 3},
    "subset-selection-1": {"name": "subset-selection", "cells": 6, "size": 1},
    "hadamard-sketch": {
        "name": "hadamard-sketch", "cells": 6, "hashes": 3, "buckets": 4, "seed": 7,
    },
    "product-grr": EXAMPLES["product-grr-6"],
    "bloom-rr": {
        "name": "bloom-rr", "cells": 6, "axes": [2, 3], "bits": 5, "hashes": 2,
        "tables": [[0, 1], [1]],
    },
}  # fmt: skip
"""Mechanisms on the six cells of a table of 2 by 3 labels, with an exact channel."""


ALL_TABLES: dict[str, dict[str, Any]] = SHAPED | {
    "olh": {"name": "olh", "cells": 6, "buckets": 4, "seed_bits": 32},
    "hadamard-coefficient": {"name": "hadamard-coefficient", "cells": 2},
}
"""Every registered mechanism."""


def outcomes(mechanism: Mechanism) -> tuple[Floats, Any]:
    """Return the channel and the tally of each output; of local hashing for an ideal hash."""
    if not isinstance(mechanism, OLH):
        return matrix(mechanism), output_tallies(mechanism)
    # A report supports its own cell with probability p, and independently any other with q.
    sets = np.array(list(product((0, 1), repeat=mechanism.cells)))
    rates = np.full((mechanism.cells, mechanism.cells), float(mechanism.q))
    np.fill_diagonal(rates, float(mechanism.p))
    chances = np.where(sets[None], rates[:, None], 1.0 - rates[:, None]).prod(axis=2)
    return chances, sets


def test_every_mechanism_states_the_covariance_of_its_tables() -> None:
    assert {spec["name"] for spec in ALL_TABLES.values()} == set(names())


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("key", ALL_TABLES)
def test_the_covariance_of_a_table_is_exact(key: str, axes: tuple[int, ...]) -> None:
    mechanism = build(ALL_TABLES[key], "1")
    shape = (2, 3) if mechanism.cells == 6 else (2, 1)
    channel, tallies = outcomes(mechanism)
    weight = uneven(mechanism.cells) @ channel
    each = np.array([mechanism.table(t, 1, shape, axes) for t in tallies])
    mean = weight @ each
    expected = (each.T * weight) @ each - np.outer(mean, mean)
    stated = mechanism.table_covariance(10, mean, shape, axes)
    np.testing.assert_allclose(stated, expected / 10, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("key", [key for key in SHAPED if key != "bloom-rr"])
def test_a_table_of_some_attributes_sums_the_whole_one(key: str) -> None:
    mechanism = build(SHAPED[key], "1")
    histogram = np.array([40, 0, 3, 7, 100, 50])
    counts = mechanism.draw_tally(histogram, np.random.default_rng(1))
    whole = mechanism.estimate(counts, 200).reshape(2, 3)
    for axes, sums in (((0,), whole.sum(axis=1)), ((1,), whole.sum(axis=0)), ((0, 1), whole)):
        table = mechanism.table(counts, 200, (2, 3), axes)
        np.testing.assert_allclose(table, sums.ravel(), atol=1e-9)
        assert not mechanism.table(0 * counts, 0, (2, 3), axes).any()


@pytest.mark.parametrize("key", SHAPED)
def test_the_rarest_event_is_no_rarer_than_stated(key: str) -> None:
    mechanism = build(SHAPED[key], "1")
    frequencies = np.array([1.0, 0, 0, 0, 0, 0])
    counters = frequencies @ matrix(mechanism) @ output_tallies(mechanism)
    counted = counters[counters > 0.0]
    stated = mechanism.rarest(frequencies, (2, 3), (0, 1))
    assert 0.0 < stated <= 0.5
    if mechanism.name in ("grr", "oue", "sue", "subset-selection"):
        assert stated == pytest.approx(np.minimum(counted, 1 - counted).min(), rel=1e-9)


def test_a_record_too_large_to_count_whole_has_its_smaller_tables() -> None:
    spec = {
        "name": "product-grr", "cells": 4**12, "axes": [4] * 12, "blocks": [[i] for i in range(12)],
        "tables": [[0, 5]],
    }  # fmt: skip
    mechanism = build(spec, "4")
    values = np.random.default_rng(2).integers(0, 4**12, 3000)
    counts = mechanism.draw_tally_of(values, np.random.default_rng(3))
    table = mechanism.table(counts, 3000, (4,) * 12, (0, 5))
    assert table.shape == (16,)
    assert table.sum() == pytest.approx(1.0)
    assert mechanism.table_covariance(3000, table, (4,) * 12, (0, 5)).shape == (16, 16)
    with pytest.raises(KeyError):
        mechanism.table(counts, 3000, (4,) * 12, (0, 1))
