"""Check that a mechanism states how much work a report needs, and never needs more.

A device refuses a plan whose reports cost too much, so it must know the work before it begins.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import orjson
import pytest

from calmstream.estimators.draws import coins, coins_bytes
from calmstream.estimators.mechanisms import olh
from calmstream.estimators.mechanisms.base import Column, Mechanism
from calmstream.estimators.mechanisms.registry import build, standard
from calmstream.estimators.papers.cormode import sketch
from calmstream.estimators.papers.lopub import bloom_filters
from calmstream.estimators.randomness import SeededRandomness, uniform_below, uniform_bytes
from calmstream.estimators.wire.report import _encode_column
from tests.support.mechanisms import EXAMPLES

LARGE: dict[str, dict[str, Any]] = {
    "grr": {"name": "grr", "cells": (1 << 24) - 1},
    "oue": {"name": "oue", "cells": 100_001},
    "sue": {"name": "sue", "cells": 100_001},
    "olh": {"name": "olh", "cells": 1 << 24, "buckets": 12_345, "seed_bits": 32},
    "hadamard-response": {"name": "hadamard-response", "cells": 1 << 24},
    "subset-selection": {"name": "subset-selection", "cells": 4096, "size": 2000},
    "hadamard-sketch": {
        "name": "hadamard-sketch", "cells": 1 << 24, "hashes": 64, "buckets": 4096, "seed": 1,
    },
    "product-grr": {
        "name": "product-grr", "cells": 3**30, "axes": [3] * 30,
        "blocks": [list(range(15)), *([i] for i in range(15, 30))], "tables": [[0]],
    },
    "bloom-rr": {
        "name": "bloom-rr", "cells": 300 * 40, "axes": [300, 40], "bits": 77, "hashes": 6,
        "tables": [[0]],
    },
}  # fmt: skip
ALL = {
    **{f"small {k}": v for k, v in EXAMPLES.items()},
    **{f"large {k}": v for k, v in LARGE.items()},
}


class Counting:
    """Seeded bytes, and how many were asked for."""

    def __init__(self, seed: int) -> None:
        self._source = SeededRandomness(seed)
        self.count = 0

    def bytes(self, count: int) -> bytes:
        self.count += count
        return self._source.bytes(count)


@pytest.mark.parametrize("key", ALL)
def test_no_report_draws_more_bytes_than_stated(key: str) -> None:
    mechanism = build(ALL[key], "1")
    drawn = []
    for seed in range(40 if key.startswith("small") else 5):
        counting = Counting(seed)
        mechanism.perturb(np.array([seed % mechanism.cells]), counting)
        drawn.append(counting.count)
    stated = mechanism.report_work.random_bytes
    parts = len(mechanism.columns) + 2
    assert max(drawn) <= stated <= 3 * max(drawn) + 1200 * parts


@pytest.mark.parametrize(
    ("spec", "random_bytes", "hashes"),
    [
        ({"name": "hadamard-response", "cells": 5}, 1 + coins_bytes(1), 0),
        ({"name": "hadamard-response", "cells": 257}, 2 + coins_bytes(1), 0),
        (LARGE["hadamard-sketch"], 1 + 2 + coins_bytes(1), 1),
        (
            {"name": "hadamard-sketch", "cells": 9, "hashes": 5, "buckets": 256, "seed": 0},
            uniform_bytes(5, 1) + 1 + coins_bytes(1),
            1,
        ),
    ],
)
def test_the_stated_work_is_one_draw_for_each_column(
    spec: dict[str, Any], random_bytes: int, hashes: int
) -> None:
    work = build(spec, "1").report_work
    assert (work.random_bytes, work.hashes, work.comparisons) == (random_bytes, hashes, 0)


@pytest.mark.parametrize("key", ALL)
def test_no_report_takes_more_bytes_than_stated(key: str) -> None:
    mechanism = build(ALL[key], "1")
    stated = mechanism.report_work.bytes
    for seed in range(20 if key.startswith("small") else 2):
        reports = mechanism.perturb(np.array([0]), SeededRandomness(seed))
        body = {c.name: _encode_column(c, reports[c.name]) for c in mechanism.columns}
        size = len(orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)) - 1  # of two brackets
        assert size <= stated <= size + 20 * len(mechanism.columns)


@pytest.mark.parametrize(
    ("kind", "bound"),
    [("int", 1), ("int", 10), ("int", 11), ("bits", 1), ("bits", 24), ("bits", 25)],
)
def test_the_bytes_of_a_column_are_exact_for_its_longest_value(kind: Any, bound: int) -> None:
    column = Column("col", kind, bound)
    values = np.array([bound - 1]) if kind == "int" else np.zeros((1, -(-bound // 8)), np.uint8)
    body = orjson.dumps({"col": _encode_column(column, values)}, option=orjson.OPT_SERIALIZE_NUMPY)
    assert column.report_bytes == len(body) - 1


@pytest.mark.parametrize("key", ALL)
def test_no_report_computes_more_hashes_than_stated(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = 0

    def counting(real: Any) -> Any:
        def buckets(seeds: Any, cells: Any, count: int) -> Any:
            nonlocal computed
            indices = real(seeds, cells, count)
            computed += indices.size
            return indices

        return buckets

    bloom_filters.facts.cache_clear()
    for module in (olh, sketch, bloom_filters):
        monkeypatch.setattr(module, "buckets", counting(module.buckets))
    mechanism = build(ALL[key], "1")
    stated = mechanism.report_work.hashes
    assert computed == 0, "what a report costs was found out by computing it"
    mechanism.check()
    mechanism.perturb(np.array([0]), SeededRandomness(1))
    assert computed <= stated <= 2 * computed


def test_the_bounds_of_draws_hold_where_most_words_are_thrown_away() -> None:
    third = (1 << 64) // 3 + 1  # two thirds of all words serve
    for size in (1, 10, 1000):
        counting = Counting(size)
        uniform_below(third, size, counting)
        assert counting.count <= uniform_bytes(third, size)
        counting = Counting(size)
        coins(size, Fraction(1, third), counting)
        assert counting.count <= coins_bytes(size)


@pytest.mark.parametrize("name", ["oue", "olh", "hadamard-sketch", "bloom-rr", "grr"])
def test_a_mechanism_is_made_without_its_tables(name: str) -> None:
    mechanism: Mechanism = standard(name, "1", 1 << 20)
    assert mechanism.report_work.bytes > 0
    assert set(vars(mechanism)) <= {
        "epsilon", "cells", "weight", "buckets", "seed_bits", "hashes", "seed",
        "axes", "bits", "tables", "layout",
    }  # fmt: skip
