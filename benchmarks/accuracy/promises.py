"""What ``calmstream plan`` promises, beside what ``calmstream evaluate`` measures.

``python -m benchmarks.accuracy.promises measure`` evaluates 200 random plans on made-up tables and
appends a line each to ``benchmarks/results/promises.jsonl``; it can be stopped and started again.
``python -m benchmarks.accuracy.promises compare`` computes what `plan` promises for each of them,
and writes a page about promise over measurement, of the half-widths of 95 % intervals.
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
from calmstream.estimators.methods.base import Request
from calmstream.evaluation.evaluate import evaluate
from calmstream.evaluation.population import Study, local_plan
from calmstream.evaluation.precision import Precision
from calmstream.tables.records import RecordTable

RESULTS = Path(__file__).parents[1] / "results" / "promises.jsonl"
CASES, ROWS, TARGETS = 200, 20_000, 30
FREEDOM = {"calm": 2000, "noise-aware": 60}
"""Coefficients that are measured at the least. A half-width would deviate by 2 or 9 % if they were
independent and alike; where a few hold most of the error, by several times as much."""
TITLE = "# What plan promises, over what evaluate measures"
ABOUT = "Half-widths that `plan` promises from the table, over those that `evaluate` measures:"
HEAD = "| method | plans | median | 90 % | within 20 % |\n|---|---:|---:|---:|---:|"


@dataclass(frozen=True, slots=True, eq=False)
class Case:
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


def measured(seed: int) -> float:
    """Return the mean squared error of a table, summed over its cells."""
    one = case(seed)
    free = [labels - 1 for labels in one.domain.cardinalities]
    each = sum(prod(some) for size in range(1, one.k + 1) for some in combinations(free, size))
    study = Study(
        RecordTable(one.domain, one.codes), [one.method], [one.epsilon], one.k, one.users,
        targets=TARGETS, repeats=ceil(FREEDOM[one.method] / each), seed=seed,
    )  # fmt: skip
    (result,) = evaluate(study, dataset=f"case {seed}", tallies="law")
    return result.sse_mean


def promised(seed: int) -> float:
    """Return the same as the plan promises it, with the table's own distributions."""
    one = case(seed)
    method = methods.get(one.method)
    plan = local_plan(method, Request(one.domain, one.epsilon, one.users, one.k))
    precision = Precision(plan, one.codes, [one.k])
    return float(np.mean([precision.squared_error(table) for table in precision.tables(one.k)]))


def ratio(seed: int, sse: float) -> float:
    """Return promise over measurement, of half-widths."""
    return float(np.sqrt(promised(seed) / sse))


def rows() -> dict[int, dict[str, float]]:
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {row["seed"]: row for row in map(json.loads, lines)}


def measure() -> None:
    """Measure what is not measured yet, quick fits first."""
    for seed in sorted(set(range(CASES)) - set(rows()), key=lambda seed: (case(seed).method, seed)):
        row = {"seed": seed, "sse_mean": measured(seed)}
        with RESULTS.open("a") as out:
            out.write(json.dumps(row) + "\n")


def compare(most: int = CASES) -> None:
    """Compute the ratios of so many measured plans more, and write the page about all."""
    found = rows()
    for seed in [seed for seed in found if "ratio" not in found[seed]][:most]:
        found[seed]["ratio"] = ratio(seed, found[seed]["sse_mean"])
        RESULTS.write_text("".join(json.dumps(row) + "\n" for row in found.values()))
    lines = [f"{TITLE}\n\n{len(found)} of {CASES} random plans are measured. {ABOUT}\n\n{HEAD}"]
    for name in ("calm", "noise-aware"):
        some = [r["ratio"] for s, r in found.items() if case(s).method == name and "ratio" in r]
        low, middle, high = np.percentile(some, [5, 50, 95])
        near = np.mean(np.abs(np.log(some)) < np.log(1.2))
        span = f"{middle:.2f} | {low:.2f} to {high:.2f}"
        lines.append(f"| `{name}` | {len(some)} | {span} | {near:.0%} |")
    RESULTS.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("measure", "compare"))
    {"measure": measure, "compare": compare}[parser.parse_args().part]()
