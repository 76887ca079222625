"""Check that every mechanism uses its random bytes as `docs/perturbing.md` states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calmstream.estimators.mechanisms.registry import build, names
from tests.support import perturbing
from tests.support.mechanisms import EXAMPLES

REPORTS = 300


def unpacked(mechanism: Any, reports: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for column in mechanism.columns:
        value = reports[column.name][0]
        if column.kind == "bits":
            bits = np.unpackbits(value, bitorder="little")
            assert not bits[column.bound :].any()
            found[column.name] = bits[: column.bound].tolist()
        else:
            found[column.name] = int(value)
    return found


def test_the_page_covers_every_mechanism() -> None:
    assert set(perturbing.MECHANISMS) == set(names())


@pytest.mark.parametrize(
    "epsilon", [*(pytest.param(e, marks=pytest.mark.slow) for e in ("0.1", "8")), "1"]
)
@pytest.mark.parametrize("key", EXAMPLES)
def test_reports_equal_those_of_the_page(key: str, epsilon: str) -> None:
    mechanism = build(EXAMPLES[key], epsilon)
    generator = np.random.default_rng(len(key))
    for number in range(REPORTS):
        # Long runs of equal bytes reach the rare paths: rejected words and second digits.
        data = generator.bytes(4096) if number % 3 else bytes([number % 256]) * 40 + bytes(4096)
        x = int(generator.integers(mechanism.cells))
        ours, theirs = perturbing.Stream(data), perturbing.Stream(data)
        reports = mechanism.perturb(np.array([x]), ours)
        assert unpacked(mechanism, reports) == perturbing.perturb(EXAMPLES[key], epsilon, x, theirs)
        assert ours.read == theirs.read
