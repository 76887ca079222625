from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import orjson
import pytest

from calmstream.common.errors import DomainError
from calmstream.estimators.domain import Domain
from calmstream.estimators.kinds import Number, Ordered
from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.randomness import SeededRandomness
from tests.support.plans import draft
from tests.unit.estimators.plan.test_schemas import PLAN

LATENCY = {
    "name": "latency",
    "kind": "number",
    "unit": "ms",
    "edges": ["1", "10", "100.5"],
    "below": True,
    "above": True,
    "rounding": "bin",
    "other": "unknown",
}
GRID = {"name": "age", "kind": "number", "unit": "", "edges": ["-1", "0", "4"], "rounding": "grid"}
APPS = {"name": "apps", "kind": "choices", "options": ["mail", "maps", "rest"], "other": "rest"}
SIZE = {"name": "size", "kind": "ordered", "labels": ["s", "m", "l"]}
PLACE = {"name": "place", "labels": ["a", "b"]}
ALL = [LATENCY, GRID, APPS, SIZE, PLACE]


def test_a_domain_with_all_kinds_is_written_as_it_was_read() -> None:
    domain = Domain.from_json(ALL)
    assert domain.to_json() == ALL
    names = "latency age apps=mail apps=maps apps=rest size place"
    assert " ".join(domain.names) == names
    assert domain.cardinalities == (5, 3, 2, 2, 2, 3, 2)
    assert domain.attributes[0].labels == ("<1", "1..10", "10..100.5", "100.5+", "unknown")
    assert domain.attributes[5].kind == Ordered()
    fields = [name.partition("=")[0] for name in domain.names]
    assert [a.field for a in domain.attributes] == fields


def test_the_published_schema_describes_every_kind() -> None:
    document = orjson.loads(draft(Domain.from_json(ALL))[0].to_bytes())
    PLAN.validate(document)
    document["domain"][1]["edges"] = [-1, 0, 4]
    assert not PLAN.is_valid(document)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (-5, 0), (0.999, 0), (1, 1), (np.float32(9.5), 1), (10, 2), (100.49, 2), (100.5, 3),
        (np.int64(7), 1), (10**400, 3), (-(10**400), 0),
        (math.nan, 4), (math.inf, 4), ("7", 4), (None, 4), (True, 4), ([7], 4),
    ],
)  # fmt: skip
def test_every_value_of_a_number_has_a_code(value: object, code: int) -> None:
    assert Domain.from_json(ALL).code(0, value) == code


def test_the_mean_of_a_grid_is_unbiased() -> None:
    number, randomness = Number(("0", "1", "10", "100"), rounding="grid"), SeededRandomness(3)
    for value in (0.0, 0.3, 1.0, 7.5, 63.0, 100.0, 1e9, -4.0):
        codes = number.codes(np.full(10_000, value), randomness)
        clamped = min(max(value, 0.0), 100.0)
        drawn = number.positions[codes]
        # A point of the grid is never moved; else five standard errors of 10^4 draws.
        error = 5.0 * float(drawn.std()) / 100.0
        assert abs(float(drawn.mean()) - clamped) <= error
        assert len(set(codes.tolist())) <= 2


@pytest.mark.parametrize("name", ["grr", "oue"])
def test_rounding_then_perturbing_has_a_ratio_of_at_most_e_to_epsilon(name: str) -> None:
    """The channel from values: mixtures of the rows of the mechanism's channel."""
    number, mechanism = (
        Number(("0", "1", "3"), rounding="grid"),
        build({"name": name, "cells": 3}, "1"),
    )
    rows = mechanism.channel()
    mixed = []
    for value in (0.0, 0.25, 1.0, 2.0, 2.5, 3.0):
        low = min(int(np.searchsorted(number.values, value, side="right")) - 1, 1)
        share = Fraction(
            (value - number.values[low]) / (number.values[low + 1] - number.values[low])
        )
        mixed.append(
            [(1 - share) * rows[low][y] + share * rows[low + 1][y] for y in range(len(rows[0]))]
        )
    worst = max(a / b for one in mixed for other in mixed for a, b in zip(one, other, strict=True))
    assert float(worst) <= math.e


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({**GRID, "edges": ["0", "0"]}, r"domain\[0\].edges: they must rise"),
        ({**GRID, "edges": [str(i) for i in range(10**5)]}, "2 to 4,096, got 100,000"),
        ({**GRID, "edges": ["0", "1e3"]}, "not a plain decimal"),
        ({**GRID, "below": True}, "a grid has no such codes"),
        ({**GRID, "rounding": "up"}, "rounding: 'up' is none of bin, grid"),
        ({**GRID, "other": "-1"}, "two equal labels"),
        (
            {**GRID, "kind": "vector"},
            "kind: 'vector' is none of category, ordered, number, choices",
        ),
        (
            {**APPS, "options": [str(i) for i in range(1000)]},
            "1 to 256 different options, got 1,000",
        ),
        ({**APPS, "options": ["a", "a"]}, "different options"),
        ({**APPS, "other": "games"}, "other: 'games' is not one of the options"),
        ({**SIZE, "edges": ["1", "2"]}, "unknown field 'edges'"),
    ],
)
def test_a_dictionary_that_cannot_be_used_is_refused_with_its_place(
    entry: dict[str, object], message: str
) -> None:
    with pytest.raises(DomainError, match=message):
        Domain.from_json([entry])


def test_a_data_dictionary_can_have_edges_that_are_numbers() -> None:
    number = Domain.from_dictionary([{**GRID, "edges": [-1, 0.5, "4"]}]).attributes[0]
    assert number.labels == ("-1", "0.5", "4")
    for edges in ([0, math.inf], [0, [1]], [0, True]):
        with pytest.raises(DomainError, match=r"domain\[0\].edges: .* is not a finite number"):
            Domain.from_dictionary([{**GRID, "edges": edges}])


def test_a_table_of_texts_is_encoded() -> None:
    domain = Domain.from_json([LATENCY, APPS, GRID])
    columns = {
        "latency": ["0.5", " 7 ", "nan", "many", "1e9"],
        "apps": ["mail|maps", "", "games", "rest | mail", "maps"],
        "age": ["-3", "0", "4", "9", "3.9"],
    }
    codes = domain.encode(columns)
    assert codes[:, 0].tolist() == [0, 1, 4, 4, 3]
    assert codes[:, 1:4].tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 1], [0, 1, 0]]
    assert codes[:, 4].tolist() == [0, 1, 2, 2, 2]
    rounded = domain.encode({**columns, "age": ["2"] * 5}, SeededRandomness(1))[:, 4]
    assert set(rounded.tolist()) <= {1, 2}
    with pytest.raises(DomainError, match="row 2: 'x' is not a finite number"):
        domain.encode({**columns, "age": ["0", "x", "0", "0", "0"]})
