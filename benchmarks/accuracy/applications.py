"""Tests of independence (Fig. 7), dependence trees (Fig. 8), InpEM (Table 3) of Cormode et al."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.accuracy.em_failures import ROWS, failures
from benchmarks.accuracy.populations import Devices, table
from calmstream.estimators import methods
from calmstream.estimators.analysis.association import chow_liu, mutual_information
from calmstream.estimators.analysis.report import associate
from calmstream.estimators.methods.base import Model, Request
from calmstream.evaluation.population import collect, local_plan

N18 = 1 << 18  # number of devices in Fig. 7

PAIRS = (
    ("Night_pick", "Night_drop"),
    ("Toll", "Far"),
    ("CC", "Tip"),
    ("CC", "M_drop"),
    ("Far", "Night_pick"),
    ("Toll", "Night_pick"),
)
"""The paper's dependent pairs, then its independent ones."""

METHODS = ("inp-ht", "marg-ps", "calm")  # methods with a noise-aware test from covariances
TREE_EPSILONS = ("0.2", "0.4", "0.6", "0.8", "1.0", "1.4")


@dataclass(frozen=True, slots=True)
class Experiment:
    figure: str  # name of the figure, which is also the name of the file of results
    key: str
    # takes the number of a repeat, runs it and returns its numbers by name
    run: Callable[[int], dict[str, Any]]


def pearson(table: np.ndarray, n: int) -> float:
    """Return chi-square of exact frequencies, as a test without privacy uses it."""
    expected = np.outer(table.sum(axis=1), table.sum(axis=0))
    positive = expected > 0.0
    return float(n * (np.square(table - expected)[positive] / expected[positive]).sum())


def fitted(method: str, epsilon: str, k: int, drawn: Devices, seed: tuple[int, ...]) -> Model:
    request = Request(drawn.domain, epsilon, len(drawn.codes), k)
    plan = local_plan(methods.get(method), request)
    tallies = collect(plan, drawn.codes, np.random.SeedSequence(seed), exact=True)
    return methods.get(method).fit(plan, tallies)


def pairs_run(method: str, repeat: int) -> dict[str, Any]:
    """Test the six pairs on newly drawn devices; return statistics, critical values, decisions."""
    drawn = Devices("taxi-whole", 8, N18, repeat)
    model = fitted(method, "1.1", 2, drawn, (91, repeat))
    numbers: dict[str, Any] = {}
    for names in PAIRS:
        pair = drawn.domain.index(names)
        test = associate(model, drawn.domain, pair, N18).test
        assert test is not None
        truth = drawn.domain.histogram(drawn.codes, pair).reshape(2, 2) / N18
        name = "-".join(names)
        numbers[f"{name} statistic"] = test.statistic
        numbers[f"{name} critical"] = test.critical
        numbers[f"{name} dependent"] = int(test.dependent)
        numbers[f"{name} exact"] = pearson(truth, N18)
    return numbers


def size_run(method: str, repeat: int) -> dict[str, Any]:
    """Test all 28 pairs of eight independent bits with taxi's shares; count the rejections."""
    drawn = Devices("taxi-whole", 8, N18, 0)
    generator = np.random.default_rng((92, repeat))
    drawn.codes = (generator.random((N18, 8)) < table("taxi-whole").codes.mean(axis=0)).astype(
        np.uint16
    )
    model = fitted(method, "1.1", 2, drawn, (93, repeat))
    tests = [associate(model, drawn.domain, pair, N18).test for pair in combinations(range(8), 2)]
    return {
        "pairs": len(tests),
        "noise-aware": sum(t.dependent for t in tests if t is not None),
        "uncorrected": sum(t.statistic > 3.84 for t in tests if t is not None),
    }


def tree_run(method: str, epsilon: str, repeat: int) -> dict[str, Any]:
    """Learn trees from private, exact and random tables; return the true information of each."""
    d = 10
    drawn = Devices("movielens", d, 200_000, repeat)
    pairs = list(combinations(range(d), 2))
    true = {
        pair: mutual_information(drawn.domain.histogram(drawn.codes, pair).reshape(2, 2))
        for pair in pairs
    }
    model = fitted(method, epsilon, 2, drawn, (94, repeat))
    private = {p: mutual_information(model.marginal(p).table.reshape(2, 2)) for p in pairs}
    numbers = np.random.default_rng((95, repeat)).random(len(pairs))
    random = dict(zip(pairs, numbers.tolist(), strict=True))
    return {
        name: sum(true[pair] for pair in chow_liu(d, information))
        for name, information in (("private", private), ("exact", true), ("random", random))
    }


def em_run(row: tuple[int, int, int, str, str], repeat: int) -> dict[str, Any]:
    """Count the failed marginals of one row of Table 3 by each stop rule."""
    by_rule = failures(table("taxi").codes, row, 200 + repeat)
    return {
        f"{stop} {what}": value
        for stop, numbers in by_rule.items()
        for what, value in zip(("failed", "of", "tv"), numbers, strict=True)
    }


def experiments() -> list[Experiment]:
    every = [
        Experiment("cormode-fig7", f"{name} {method}", partial(run, method))
        for name, run in (("pairs", pairs_run), ("size", size_run))
        for method in METHODS
    ]
    every += [
        Experiment(
            "cormode-fig8", f"{method} epsilon={epsilon}", partial(tree_run, method, epsilon)
        )
        for method in METHODS
        for epsilon in TREE_EPSILONS
    ]
    every += [
        Experiment("cormode-table3", f"row {i}", partial(em_run, row)) for i, row in enumerate(ROWS)
    ]
    return every
