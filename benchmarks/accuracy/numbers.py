"""Numbers of 64 levels against plain categories, Square Wave and hybrid-dimensional grids.

    python -m benchmarks.accuracy.numbers again [--only adult]
    python -m benchmarks.accuracy.numbers table

Adult has four numbers and two categories, diamonds the same. All methods got the same devices. What
the others do does not change: their results are in ``benchmarks/results/numbers.jsonl``. ``again``
replaces those of ``noise-aware`` on numbers (*smooth*) by those of today's code, and ``table``
writes ``numbers.md``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.accuracy.measure import RESULTS, Ledger
from benchmarks.populations import DATA
from calmstream.estimators import methods
from calmstream.estimators.analysis.summaries import Distribution, Value, levels
from calmstream.estimators.domain import Codes, Domain
from calmstream.estimators.marginal import Marginal, inside
from calmstream.estimators.methods.base import Model
from calmstream.estimators.noise_aware.model import NoiseAwareModel
from calmstream.estimators.plan.request import Request
from calmstream.evaluation.population import collect, draw, local_plan
from calmstream.evaluation.ranges import RangeQuestions
from calmstream.tables.records import read_texts


def _steps(first: float, step: float, bins: int = 64) -> list[float]:
    return [round(first + step * i, 6) for i in range(bins + 1)]


NUMBERS: dict[str, dict[str, list[float]]] = {
    "adult": {
        "age": _steps(16, 1),
        "hours-per-week": _steps(0, 1.5),
        "education-num": _steps(1, 1, 16),
        "capital-gain": [0.0, 1.0, *_steps(1600, 1600, 62)],
    },
    "diamonds": {
        "carat": _steps(0.2, 0.075),
        "price": _steps(0, 300),
        "depth": _steps(48, 0.5),
        "table": _steps(48, 0.5),
    },
}
"""Edges of the numbers, from public knowledge; values beyond them go to the first or last bin."""

CATEGORIES = {"adult": ("sex", "income"), "diamonds": ("cut", "color")}
EPSILONS = ("0.2", "0.5", "1", "2")
USERS = (1 << 16, 1 << 18)
QUESTIONS = 200  # random ranges of each number, and of each pair of attributes

SHARES = (0.25, 0.5, 0.9)  # quantiles whose intervals are checked


def load(dataset: str) -> tuple[Domain, Codes]:
    """Return the domain with its numbers, and the records."""
    numbers, categories = NUMBERS[dataset], CATEGORIES[dataset]
    texts = read_texts(DATA / f"{dataset}.csv.gz", (*numbers, *categories))
    document: list[dict[str, Any]] = [
        {"name": name, "kind": "number", "edges": edges} for name, edges in numbers.items()
    ]
    document += [{"name": n, "labels": sorted(set(texts[n]))} for n in categories]
    domain = Domain.from_dictionary(document)
    return domain, domain.encode(texts)


class Margins:
    """Tables of single attributes, as a model."""

    def __init__(self, tables: Sequence[np.ndarray]) -> None:
        self._tables = tables

    def marginal(self, attributes: tuple[int, ...]) -> Marginal:
        table = self._tables[attributes[0]]
        return Marginal(attributes, table, np.zeros_like(table), 0, ())


def _own(domain: Domain, codes: Codes, epsilon: str, repeat: int) -> dict[str, float]:
    """Return seconds, errors and coverage of noise-aware."""
    plan = local_plan(methods.get("noise-aware"), Request(domain, epsilon, len(codes), 2))
    tallies = collect(plan, codes, np.random.SeedSequence([repeat, 2]), exact=True)
    started = time.process_time()
    model = NoiseAwareModel(plan, tallies)
    found = {"seconds": time.process_time() - started}
    return found | _errors(domain, codes, model, repeat) | _coverage(domain, codes, model, repeat)


def _errors_of_numbers(domain: Domain, codes: Codes, model: Model, repeat: int) -> dict[str, float]:
    """Return geometric means over the numbers of each error of their margins."""
    rows, names = [], ("range_mse", "wasserstein", "mean_error", "cells")
    for j, attribute in enumerate(domain.attributes):
        if attribute.kind is None:
            continue
        single = Domain((attribute,))
        asked = RangeQuestions(single, [(0,)], QUESTIONS, np.random.default_rng([repeat, 4, j]))
        table = model.marginal((j,)).table
        truth = domain.histogram(codes, (j,)) / len(codes)
        errors = asked.errors(Margins([table]), [table], [truth], [truth])
        cells = float(np.square(table - truth).sum())
        rows.append([*(errors[name] for name in names[:3]), cells])
    return dict(zip(names, np.exp(np.log(rows).mean(axis=0)).tolist(), strict=True))


def _errors(domain: Domain, codes: Codes, model: Model, repeat: int) -> dict[str, float]:
    """Return those, and errors and coverage of pairs with a number."""
    found = _errors_of_numbers(domain, codes, model, repeat)
    rows, of_numbers = [], []
    for pair in combinations(range(len(domain)), 2):
        if all(domain.attributes[i].kind is None for i in pair):
            continue
        answer, truth = model.marginal(pair), domain.histogram(codes, pair) / len(codes)
        random = np.random.default_rng([repeat, 5, *pair])
        asked = RangeQuestions(domain, [pair], QUESTIONS, random)
        margins = [domain.histogram(codes, one) / len(codes) for one in asked.margins]
        errors = asked.errors(model, [answer.table], [truth], margins)
        cells = float(np.square(answer.table - truth).sum())
        held = float(inside(answer.table, answer.stderr, truth).mean())
        rows.append([np.log(errors["range_mse"]), np.log(cells), held])
        if all(domain.attributes[i].kind is not None for i in pair):
            of_numbers.append(np.log(errors["range_mse"]))
    ranges, cells, held = np.mean(rows, axis=0).tolist()
    pairs = {"pair_range_mse": np.exp(ranges), "pair_cells": np.exp(cells)}
    pairs["number_pair_range_mse"] = np.exp(np.mean(of_numbers))
    return found | {k: float(v) for k, v in pairs.items()} | {"pair_held": held}


def _coverage(domain: Domain, codes: Codes, model: Any, repeat: int) -> dict[str, float]:
    """Return the shares of 95 % intervals of means, quantiles and ranges that hold the truth."""
    names = ("mean_held", "median_held", "quantile_held", "range_held")
    held: dict[str, list[bool]] = {name: [] for name in names}
    for j, attribute in enumerate(domain.attributes):
        if attribute.kind is None:
            continue
        own, size = levels(attribute), attribute.cardinality
        shares, covariance = model.grouped((j,), [np.eye(size)])
        found = Distribution(own, shares, covariance)
        exact = domain.histogram(codes, (j,)) / len(codes)
        truth = Distribution(own, exact, np.zeros((size, size)))
        held["mean_held"].append(_holds(found.mean(), truth.mean()))
        held["median_held"].append(_holds(found.quantile(0.5), truth.quantile(0.5)))
        held["quantile_held"] += [_holds(found.quantile(q), truth.quantile(q)) for q in SHARES]
        random = np.random.default_rng([repeat, 6, j])
        for _ in range(20):
            ends = np.sort(random.choice(size + 1, size=2, replace=False))
            box = (int(ends[0]), int(ends[1]) - 1)
            held["range_held"].append(_holds(found.share(*box), truth.share(*box)))
    return {name: float(np.mean(values)) for name, values in held.items()}


def _holds(found: Value, truth: Value) -> bool:
    return found.low - 1e-9 <= truth.value <= found.high + 1e-9


def cases() -> Iterator[tuple[str, str, str, int]]:
    """Yield key, data set, epsilon and users of all cases."""
    for dataset in NUMBERS:
        for epsilon in EPSILONS:
            for users in USERS:
                yield f"{dataset}, epsilon {epsilon}, n {users}", dataset, epsilon, users


def again(only: str) -> None:
    """Measure only ``smooth`` again in all repeats that have results, from the same draws."""
    ledger = Ledger("numbers")
    for key, dataset, epsilon, users in cases():
        if only not in ("", dataset):
            continue
        domain, records = load(dataset)
        for repeat, before in enumerate(ledger.results(key)):
            codes = draw(records, users, np.random.default_rng([repeat, 1]))
            found = _own(domain, codes, epsilon, repeat)
            ledger.add(key, repeat, before | {f"smooth {k}": v for k, v in found.items()})
            print(key, repeat, flush=True)


RATIOS = {
    "ranges": ("smooth range_mse", "plain range_mse"),
    "ranges, wave": ("smooth range_mse", "wave range_mse"),
    "ranges, grids": ("smooth range_mse", "grids range_mse"),
    "distance": ("smooth wasserstein", "plain wasserstein"),
    "distance, wave": ("smooth wasserstein", "wave wasserstein"),
    "distance, grids": ("smooth wasserstein", "grids wasserstein"),
    "means": ("smooth mean_error", "plain mean_error"),
    "cells": ("smooth cells", "plain cells"),
    "ranges of pairs": ("smooth pair_range_mse", "plain pair_range_mse"),
    "cells of pairs": ("smooth pair_cells", "plain pair_cells"),
}
PUBLISHED = {
    "ranges, HDG": ("smooth range_mse", "hdg range_mse"),
    "ranges, PriPL-Tree": ("smooth range_mse", "pripl range_mse"),
    "ranges, its trees alone": ("smooth range_mse", "trees range_mse"),
    "distance, HDG": ("smooth wasserstein", "hdg wasserstein"),
    "distance, PriPL-Tree": ("smooth wasserstein", "pripl wasserstein"),
    "ranges of pairs, HDG": ("smooth number_pair_range_mse", "hdg pair_range_mse"),
    "ranges of pairs, PriPL-Tree": ("smooth number_pair_range_mse", "pripl pair_range_mse"),
}
"""Errors of published code are measured outside of this repository, on the same devices and ranges,
and added to the file of results; pairs are those of two numbers."""

HELD = {
    "means": "mean_held",
    "medians": "median_held",
    "quantiles": "quantile_held",
    "ranges": "range_held",
    "cells of pairs": "pair_held",
}


def table() -> str:
    """Return the page of all results."""
    ledger = Ledger("numbers")
    lines = [
        "# Numbers of 64 levels",
        "",
        "Written by `python -m benchmarks.accuracy.numbers table`. Errors of numbers over those of",
        "plain categories with the plan of categories, or over those of Square Wave with EMS",
        "(*wave*) and hybrid-dimensional grids (*grids*); geometric means over numbers or pairs,",
        "and over repeats. Ranges: mean squared error of 200 random ranges. Distance:",
        "Wasserstein-1.",
        "",
    ]
    keys = [key for key, *_ in cases() if ledger.results(key)]
    lines += _compared(ledger, keys, RATIOS)
    lines += ["", "Share of 95 % intervals that hold the truth, smooth (plain), in percent:", ""]
    lines += ["| case | " + " | ".join(HELD) + " |", "|---|" + "---|" * len(HELD)]
    every = {
        f"epsilon {e}": [r for key in keys if f"epsilon {e}," in key for r in ledger.results(key)]
        for e in EPSILONS
    }
    for name, found in (*every.items(), ("all", [r for v in every.values() for r in v])):
        if found:
            cells = [
                f"{_percent(found, f'smooth {held}')} ({_percent(found, f'plain {held}')})"
                for held in HELD.values()
            ]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    keys = [k for k, *_ in cases() if _published(ledger, k)]
    if keys:
        lines += [
            "",
            "## Published code",
            "",
            "Errors of numbers over those of the authors' code, as above.",
            "",
        ]
        lines += _compared(ledger, keys, PUBLISHED)
    return "\n".join(lines) + "\n"


def _published(ledger: Ledger, key: str) -> bool:
    """Return whether all results of a case contain those of published code."""
    names = {name for pair in PUBLISHED.values() for name in pair}
    found = ledger.results(key)
    return bool(found) and all(names <= result.keys() for result in found)


def _compared(ledger: Ledger, keys: Sequence[str], ratios: dict[str, tuple[str, str]]) -> list[str]:
    """Return the lines of a table of ratios of errors: geometric means over repeats and cases."""
    lines = [
        "| case | repeats | " + " | ".join(ratios) + " |",
        "|---|" + "---|" * (len(ratios) + 1),
    ]
    logs = []
    for key in keys:
        results = ledger.results(key)
        rows = [[np.log(r[a] / r[b]) for a, b in ratios.values()] for r in results]
        logs.append(np.mean(rows, axis=0))
        lines.append(_row(key, len(results), np.exp(logs[-1])))
    lines.append(_row("geometric mean", "", np.exp(np.mean(logs, axis=0))))
    return lines


def _percent(results: list[dict[str, Any]], name: str) -> str:
    """Return a mean share in percent; a dash where a result lacks it."""
    if not all(name in result for result in results):
        return "–"
    return f"{100 * np.mean([result[name] for result in results]):.0f}"


def _row(name: str, repeats: object, ratios: np.ndarray) -> str:
    return f"| {name} | {repeats} | " + " | ".join(f"{r:.2f}" for r in ratios) + " |"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("again", "table"))
    parser.add_argument("--only", default="", choices=("", *NUMBERS))
    args = parser.parse_args()
    if args.what == "again":
        again(args.only)
    page = table()
    (RESULTS / "numbers.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
