"""What ``calmstream plan`` promises, beside what ``calmstream evaluate`` measures.

``python -m benchmarks.accuracy.promises measure`` evaluates 200 random plans on made-up tables and
appends a line each to ``benchmarks/results/promises.jsonl``; it can be stopped and started again.
``python -m benchmarks.accuracy.promises compare`` computes what `plan` promises for each of them,
and prints the ratio of promise and measurement, of the half-widths of 95 % intervals.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from itertools import combinations
from math import ceil, prod
from pathlib import Path

import numpy as np

from calmstream.estimators import methods
from calmstream.estimators.domain import Attribute, Codes, Domain
from calmstream.estimators.plan.request import Request
from calmstream.evaluation.evaluate import evaluate
from calmstream.evaluation.population import local_plan
from calmstream.evaluation.precision import Precision
from calmstream.tables.records import RecordTable

RESULTS = Path(__file__).parents[1] / "results" / "promises.jsonl"
CASES = 200
ROWS = 20_000
TARGETS = 30
FREEDOM = 40
"""Coefficients, over all collections, whose errors are measured at the least: 11 % of a half-width
is then the deviation of what is measured. Single attributes of few labels take many collections."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A random plan and a random table."""

    domain: Domain
    codes: Codes
    method: str
    epsilon: str
    users: int
    k: int


def case(seed: int) -> Case:
    """Return a case: 3 to 8 attributes of 2 to 6 labels, of which most depend on another."""
    dice = np.random.default_rng(seed)
    labels = dice.integers(2, 7, size=int(dice.integers(3, 9))).tolist()
    columns: list[Codes] = []
    for count in labels:
        shares = dice.dirichlet(np.ones(count) * dice.choice([0.5, 1.0, 3.0]))
        column = dice.choice(count, size=ROWS, p=shares)
        if columns and dice.random() < 0.7:
            other = columns[int(dice.integers(len(columns)))]
            follows = dice.random(ROWS) < 0.7 * dice.random()
            column = np.where(follows, dice.permutation(6)[other] % count, column)
        columns.append(column.astype(np.uint16))
    domain = Domain(
        tuple(Attribute(f"a{i}", tuple(map(str, range(n)))) for i, n in enumerate(labels))
    )
    return Case(
        domain,
        np.stack(columns, axis=1),
        str(dice.choice(["noise-aware", "noise-aware", "calm"])),
        str(dice.choice(["0.5", "1", "2", "4"])),
        int(np.exp(dice.uniform(np.log(5_000), np.log(500_000)))),
        int(dice.integers(1, 3)),
    )


def freedom(one: Case) -> int:
    """Return the number of coefficients that one collection estimates."""
    free = [labels - 1 for labels in one.domain.cardinalities]
    return sum(prod(some) for size in range(1, one.k + 1) for some in combinations(free, size))


def measured(seed: int) -> float:
    """Return the mean squared error of a table, summed over its cells."""
    one = case(seed)
    (result,) = evaluate(
        RecordTable(one.domain, one.codes),
        dataset=f"case {seed}",
        methods=[one.method],
        epsilons=[one.epsilon],
        k=one.k,
        users=one.users,
        targets=TARGETS,
        repeats=ceil(FREEDOM / freedom(one)),
        seed=seed,
        tallies="law",
    )
    return result.sse_mean


def promised(seed: int) -> float:
    """Return the same as the plan promises it, with the table's own distributions."""
    one = case(seed)
    method = methods.get(one.method)
    plan = local_plan(method, Request(one.domain, one.epsilon, one.users, one.k))
    precision = Precision(plan, one.codes, [one.k])
    return float(np.mean([precision.squared_error(table) for table in precision.tables(one.k)]))


def ratios(seeds: dict[int, float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return promise over measurement, of half-widths."""
    return np.array([np.sqrt(promised(seed) / sse) for seed, sse in seeds.items()])


def done() -> dict[int, float]:
    """Return the measurements so far."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {row["seed"]: row["sse_mean"] for row in map(json.loads, lines)}


def measure() -> None:
    """Measure what is not measured yet, quick fits first."""
    left = set(range(CASES)) - set(done())
    for seed in sorted(left, key=lambda seed: (case(seed).method, seed)):
        row = {"seed": seed, "sse_mean": measured(seed)}
        with RESULTS.open("a") as out:
            out.write(json.dumps(row) + "\n")


def compare() -> None:
    """Print the ratios."""
    found = ratios(done())
    low, first, middle, last, high = np.percentile(found, [0, 5, 50, 95, 100])
    near = np.mean(np.abs(np.log(found)) < np.log(1.2))
    print(
        f"{len(found)} plans: promise / measurement median {middle:.2f}, 90 % from {first:.2f} to "
        f"{last:.2f}, all from {low:.2f} to {high:.2f}; within 20 %: {near:.0%}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("measure", "compare"))
    {"measure": measure, "compare": compare}[parser.parse_args().part]()
