from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators.mechanisms.hashing import bucket_bounds, buckets
from calmstream.estimators.mechanisms.olh import BLOCK
from calmstream.estimators.mechanisms.registry import build
from tests.support.perturbing import MASK, bucket, mix


def test_shipped_buckets_follow_the_contract() -> None:
    rng = np.random.default_rng(1)
    seeds, cells = rng.integers(0, 1 << 32, 300), rng.integers(0, 1 << 24, 300)
    for count in (2, 3, 7, 256, 1 << 24):
        pairs = zip(seeds.tolist(), cells.tolist(), strict=True)
        expected = [bucket(seed, cell, count) for seed, cell in pairs]
        assert buckets(seeds, cells, count).tolist() == expected


def unmix(x: int) -> int:
    """Return the seed that gives a hash (the inverse of the documented mixing)."""
    x ^= x >> 16
    x = x * pow(0xC2B2AE35, -1, 1 << 32) & MASK
    x ^= x >> 13 ^ x >> 26
    x = x * pow(0x85EBCA6B, -1, 1 << 32) & MASK
    return x ^ x >> 16


@pytest.mark.parametrize("count", [2, 3, 4, 1000])
def test_a_bucket_ends_at_exactly_its_last_hash(count: int) -> None:
    oracle = build({"name": "olh", "cells": 3, "buckets": count, "seed_bits": 32}, "1")
    bounds = bucket_bounds(count).tolist()
    for y in (0, count // 2, count - 1):
        hashes = [bounds[y] - 1 & MASK, bounds[y], bounds[y + 1] - 1, bounds[y + 1] & MASK]
        seeds = np.array([unmix(h) ^ mix(1 + 0x9E3779B9) for h in hashes])
        assert [bucket(s, 1, 1 << 32) for s in seeds.tolist()] == hashes
        alone = oracle.tally({"s": seeds, "y": np.full(4, y)}, np.arange(4), 4)
        assert alone[:, 1].tolist() == [0, 1, 1, 0]


def test_views_that_end_where_a_block_ends_are_counted_apart() -> None:
    oracle = build({"name": "olh", "cells": 3, "buckets": 4, "seed_bits": 32}, "1")
    rng = np.random.default_rng(3)
    sizes = [BLOCK, 5, 0, 2 * BLOCK - 5, BLOCK]
    view = np.repeat(np.arange(5), sizes)
    n = len(view)
    reports = {"s": rng.integers(0, 1 << 32, n), "y": rng.integers(0, 4, n)}
    hits = buckets(reports["s"], np.arange(3)[:, None], 4) == reports["y"]
    expected = [hits[:, view == v].sum(axis=1).tolist() for v in range(5)]
    assert oracle.tally(reports, view, 5).tolist() == expected
