"""Applications: tests of independence (Fig. 7), dependence trees (Fig. 8), InpEM (Table 3).

Each is a list of keyed experiments whose one run gives a flat record of numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.accuracy.em_failures import ROWS, failures
from benchmarks.accuracy.populations import Devices, table
from calmstream.evaluation.population import collect
from calmstream.evaluation.rounds import local_plan
from estimators import methods
from estimators.analysis import chow_liu, mutual_information, statistic
from estimators.analysis.report import check_pair
from estimators.methods.base import Model
from estimators.plan.request import Request

N18 = 1 << 18
PAIRS = (
    ("Night_pick", "Night_drop"),
    ("Toll", "Far"),
    ("CC", "Tip"),
    ("CC", "M_drop"),
    ("Far", "Night_pick"),
    ("Toll", "Night_pick"),
)
"""The paper's dependent pairs, then its independent ones (which are dependent in these data)."""

TEST_METHODS = ("inp-ht", "marg-ps", "calm")
TREE_METHODS = ("inp-ht", "marg-ps", "calm")
TREE_EPSILONS = ("0.2", "0.4", "0.6", "0.8", "1.0", "1.4")


@dataclass(frozen=True, slots=True)
class Experiment:
    """One keyed run.

    Attributes:
        figure: also the name of the file of results.
        key: of its results.
        run: the numbers of one repeat.
    """

    figure: str
    key: str
    run: Callable[[int], dict[str, Any]]


def fitted(method: str, epsilon: str, k: int, drawn: Devices, seed: tuple[int, ...]) -> Model:
    """Return a model of one collection from the drawn devices."""
    request = Request(drawn.domain, epsilon, len(drawn.codes), k)
    plan = local_plan(methods.get(method), request)
    tallies = collect(plan, drawn.codes, np.random.SeedSequence(seed), exact=True)
    return methods.get(method).fit(plan, tallies)


def pairs_run(method: str, repeat: int) -> dict[str, Any]:
    """Return the statistic and critical values of the six pairs on fresh devices."""
    drawn = Devices("taxi", 8, N18, repeat)
    model = fitted(method, "1.1", 2, drawn, (91, repeat))
    found: dict[str, Any] = {}
    for names in PAIRS:
        pair = drawn.domain.index(names)
        test = check_pair(model, drawn.domain, pair, N18)
        assert test is not None
        truth = drawn.domain.histogram(drawn.codes, pair).reshape(2, 2) / N18
        name = "-".join(names)
        found[f"{name} statistic"] = test.statistic
        found[f"{name} critical"] = test.critical
        found[f"{name} dependent"] = int(test.dependent)
        found[f"{name} exact"] = statistic(truth, N18)
    return found


def size_run(method: str, repeat: int) -> dict[str, Any]:
    """Count the rejections of 28 independent pairs with taxi's margins, by both critical values."""
    drawn = Devices("taxi", 8, N18, 0)
    generator = np.random.default_rng((92, repeat))
    drawn.codes = (generator.random((N18, 8)) < table("taxi").codes.mean(axis=0)).astype(np.uint16)
    model = fitted(method, "1.1", 2, drawn, (93, repeat))
    tests = [check_pair(model, drawn.domain, pair, N18) for pair in combinations(range(8), 2)]
    return {
        "pairs": len(tests),
        "noise-aware": sum(t.dependent for t in tests if t is not None),
        "uncorrected": sum(t.statistic > t.uncorrected for t in tests if t is not None),
    }


def tree_run(method: str, epsilon: str, repeat: int) -> dict[str, Any]:
    """Return the true mutual information of trees learnt from private, exact and random tables."""
    d = 10
    drawn = Devices("movielens", d, 200_000, repeat)
    pairs = list(combinations(range(d), 2))
    true = {
        pair: mutual_information(drawn.domain.histogram(drawn.codes, pair).reshape(2, 2))
        for pair in pairs
    }
    model = fitted(method, epsilon, 2, drawn, (94, repeat))
    private = {p: mutual_information(model.marginal(p).table.reshape(2, 2)) for p in pairs}
    order = np.random.default_rng((95, repeat)).random(len(pairs))
    blind = dict(zip(pairs, order.tolist(), strict=True))
    return {
        name: sum(true[e.first, e.second] for e in chow_liu(d, known))
        for name, known in (("private", private), ("exact", true), ("random", blind))
    }


def em_run(row: tuple[int, int, int, str, str], repeat: int) -> dict[str, Any]:
    """Count the failed marginals by each stop rule."""
    found = failures(table("taxi").codes, row, 200 + repeat)
    return {
        f"{stop} {what}": value
        for stop, numbers in found.items()
        for what, value in zip(("failed", "of", "tv"), numbers, strict=True)
    }


def experiments() -> list[Experiment]:
    """Return all experiments."""
    found = [
        Experiment("cormode-fig7", f"{name} {method}", partial(run, method))
        for name, run in (("pairs", pairs_run), ("size", size_run))
        for method in TEST_METHODS
    ]
    found += [
        Experiment(
            "cormode-fig8", f"{method} epsilon={epsilon}", partial(tree_run, method, epsilon)
        )
        for method in TREE_METHODS
        for epsilon in TREE_EPSILONS
    ]
    found += [
        Experiment("cormode-table3", f"row {i}", partial(em_run, row)) for i, row in enumerate(ROWS)
    ]
    return found
