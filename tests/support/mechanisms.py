"""One small example of every mechanism, and how to read reports as the outputs of a channel."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import factorial, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from calmstream.estimators.mechanisms.base import Column, Mechanism, Reports
from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.mechanisms.support import SupportOracle
from calmstream.estimators.mechanisms.unary import UnaryOracle
from calmstream.estimators.papers.castell.product_grr import ProductGRR
from calmstream.estimators.papers.cormode.sketch import HadamardSketch
from calmstream.estimators.papers.lopub.bloom_rr import BloomRR

Array = NDArray[Any]

# Small enough that the channel can be listed; odd sizes, so that padding and unused rows show.
EXAMPLES: dict[str, dict[str, Any]] = {
    "grr-2": {"name": "grr", "cells": 2},
    "grr-5": {"name": "grr", "cells": 5},
    "oue-5": {"name": "oue", "cells": 5},
    "oue-9": {"name": "oue", "cells": 9},
    "sue-4": {"name": "sue", "cells": 4},
    "olh-5": {"name": "olh", "cells": 5, "buckets": 3, "seed_bits": 5},
    "hadamard-coefficient": {"name": "hadamard-coefficient", "cells": 2},
    "hadamard-response-5": {"name": "hadamard-response", "cells": 5},
    "hadamard-response-4": {"name": "hadamard-response", "cells": 4},
    "subset-selection-6-2": {"name": "subset-selection", "cells": 6, "size": 2},
    "subset-selection-9-4": {"name": "subset-selection", "cells": 9, "size": 4},
    "subset-selection-4-3": {"name": "subset-selection", "cells": 4, "size": 3},
    "hadamard-sketch-5": {
        "name": "hadamard-sketch", "cells": 5, "hashes": 2, "buckets": 4, "seed": 7,
    },
    "product-grr-6": {
        "name": "product-grr", "cells": 6, "axes": [2, 3], "blocks": [[0], [1]],
        "tables": [[0, 1], [1]],
    },
    "bloom-rr-3": {
        "name": "bloom-rr", "cells": 3, "axes": [3], "bits": 6, "hashes": 2, "tables": [[0]],
    },
    "bloom-rr-4": {
        "name": "bloom-rr", "cells": 4, "axes": [2, 2], "bits": 4, "hashes": 2,
        "tables": [[0, 1], [1]],
    },
}  # fmt: skip

HASHED = {"olh", "hadamard-sketch"}  # unbiased over the drawing of their hashes only

SPLIT = {"bloom-rr"}
"""Spend epsilon in many parts, each rounded down; unbiased only with more bits than values."""


def example(key: str, epsilon: str = "1") -> Mechanism:
    return build(EXAMPLES[key], epsilon)


def digit(column: Column, values: Array) -> Array:
    """Return each report's entry in one column as an integer."""
    if column.kind == "int":
        return values.astype(np.int64)
    place = np.int64(1) << (8 * np.arange(values.shape[1], dtype=np.int64))
    return values.astype(np.int64) @ place


def base(column: Column) -> int:
    return column.bound if column.kind == "int" else 1 << column.bound


def codes(mechanism: Mechanism, reports: Reports) -> Array:
    """Return the code of every report; ``Mechanism.channel`` orders outputs by it."""
    code = np.zeros(len(reports[mechanism.columns[0].name]), np.int64)
    for column in mechanism.columns:
        code = code * base(column) + digit(column, reports[column.name])
    return code


def possible_codes(mechanism: Mechanism) -> list[int]:
    if mechanism.name == "subset-selection":
        size = mechanism.to_json()["size"]
        return sorted(sum(1 << c for c in s) for s in combinations(range(mechanism.cells), size))
    total = 1
    for column in mechanism.columns:
        total *= base(column)
    return list(range(total))


def every_report(mechanism: Mechanism) -> dict[str, Array]:
    """Return one report for each output of the channel, in its order."""
    code = np.array(possible_codes(mechanism))
    reports: dict[str, Array] = {}
    for column in reversed(mechanism.columns):
        entry = code % base(column)
        code = code // base(column)
        if column.kind == "bits":
            shifts = 8 * np.arange(-(-column.bound // 8))
            entry = (entry[:, None] >> shifts & 0xFF).astype(np.uint8)
        reports[column.name] = entry
    return reports


def worst_ratio(mechanism: Mechanism) -> Fraction:
    """Return the largest P(y|x) / P(y|x') over all outputs y and inputs x, x', by the structure.

    Two inputs differ in two bits of a unary encoding, in one cell of each block and, at most, in
    ``distance`` bits of Bloom filters; all else that is drawn does not depend on the input.
    """
    if isinstance(mechanism, UnaryOracle):
        p, q = mechanism.p, mechanism.q
        return p * (1 - q) / (q * (1 - p))
    if isinstance(mechanism, ProductGRR):
        return prod((Fraction(weight, 1 << 32) for weight in mechanism.weights), start=Fraction(1))
    assert isinstance(mechanism, SupportOracle | HadamardSketch | BloomRR)
    times = mechanism.distance if isinstance(mechanism, BloomRR) else 1
    return Fraction(mechanism.weight, 1 << 32) ** times


def matrix(mechanism: Mechanism) -> NDArray[np.float64]:
    """Return the exact channel as floats: shape (cells, outputs)."""
    return np.array([[float(p) for p in row] for row in mechanism.channel()])


def output_tallies(mechanism: Mechanism) -> Array:
    """Return the tally of each single output: shape (outputs, width)."""
    reports = every_report(mechanism)
    outputs = len(possible_codes(mechanism))
    return mechanism.tally(reports, np.arange(outputs), outputs)


def p_value(observed: Array, expected: Array) -> float:
    """Return the p-value of a chi-square test; outcomes expected less than 5 times are merged."""
    order = np.argsort(expected)
    pool = int(np.searchsorted(np.cumsum(expected[order]), 5)) + 1
    rare, common = order[:pool], order[pool:]
    observed = np.append(observed[common], observed[rare].sum())
    expected = np.append(expected[common], expected[rare].sum())
    statistic = (np.square(observed - expected) / expected).sum()
    return float(chi2.sf(statistic, len(expected) - 1))


def parts(reports: Reports, chosen: Any) -> dict[str, Array]:
    return {name: column[chosen] for name, column in reports.items()}


def below_exp(x: Fraction, terms: int = 160) -> Fraction:
    """Return a rational below exp(x), within one part in 10^30 for x up to 16."""
    return Fraction(sum(x**k / factorial(k) for k in range(terms)))
