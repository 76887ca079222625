"""The edge in TypeScript makes Python's reports, byte for byte, with the exact channel."""

from __future__ import annotations

import json

import numpy as np
import pytest

from calmstream.estimators.mechanisms.registry import names
from tests.support.mechanisms import EXAMPLES, example, matrix, p_value, possible_codes
from tests.support.typescript.cases import HASHED, SPECS
from tests.support.typescript.conformance import differences
from tests.support.typescript.package import answers

CASES = 300
REPORTS = 30_000
ALPHA = 1e-6
QUICK = {"grr-5", "oue-5", "subset-selection-4-3", "hadamard-sketch-5", "bloom-rr-3"}
"""Whose channels `make test` counts; the bytes of every mechanism's reports are compared anyway."""


def test_every_mechanism_is_compared() -> None:
    assert set(SPECS) == set(names())


@pytest.mark.parametrize("name", [*SPECS, HASHED])
def test_the_same_bytes_give_the_same_report(name: str) -> None:
    assert differences(name, CASES, seed=sum(name.encode())) == []


@pytest.mark.parametrize(
    "key", [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in EXAMPLES]
)
def test_reports_have_the_listed_channel(key: str) -> None:
    mechanism = example(key, "1")
    case = {"mechanism": EXAMPLES[key], "epsilon": "1", "n": REPORTS}
    lines = [json.dumps(case | {"x": x}) for x in range(mechanism.cells)]
    codes = possible_codes(mechanism)
    for x, answer in enumerate(answers("frequencies", lines)):
        counted = {int(code): count for code, count in json.loads(answer).items()}
        assert set(counted) <= set(codes)
        seen = np.array([counted.get(code, 0) for code in codes])
        assert p_value(seen, REPORTS * matrix(mechanism)[x]) > ALPHA, x


def test_another_channel_would_be_noticed() -> None:
    row, other = (matrix(example("grr-5", epsilon))[0] for epsilon in ("1", "1.1"))
    seen = np.random.default_rng(3).multinomial(REPORTS, row)
    assert p_value(seen, REPORTS * row) > ALPHA
    assert p_value(seen, REPORTS * other) < ALPHA
