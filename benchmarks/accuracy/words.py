"""Measure shares of words that nobody listed: `make words` (ARGS="table" prints what is there).

20,000 words with Zipf's shares and as many candidates that nobody has, a plan with one other
attribute, ten public hashes. A cell is a number of devices and an epsilon.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.study import Study
from calmstream.estimators.analysis.words import (
    BucketShares,
    Words,
    bucket_shares,
    decode,
    kind_of,
)
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.methods import get
from calmstream.estimators.methods.base import Request
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View
from calmstream.evaluation.population import local_plan

STUDY = Study(Path(__file__).parents[1] / "results" / "words.jsonl")
BUCKETS, HASHES, WORDS, LABELS = 64, 16, 20_000, (0.5, 0.3, 0.2)
PUBLIC_HASHES = 10
CELLS = list(product(range(16, 23, 2), ("0.5", "1", "2")))
UNLISTED = 30  # the largest words, which the second list lacks


def plan_of(devices: int, epsilon: str) -> Plan:
    labels = [str(i) for i in range(len(LABELS))]
    hashed = {"name": "word", "kind": "hashed", "buckets": BUCKETS, "hashes": HASHES}
    domain = Domain.from_json([{"name": "version", "labels": labels}, hashed])
    return local_plan(get("noise-aware"), Request(domain, epsilon, devices, 2))


def counted(
    plan: Plan, places: NDArray[np.int64], shares: Floats, random: np.random.Generator
) -> list[Tally]:
    """Return tallies of devices that are drawn; the first word is of the last label only."""
    weights = np.diff(plan.cumulative_shares, prepend=0) / plan.total_share
    devices = iter(random.multinomial(plan.users, weights).tolist())
    tallies = []
    for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True):
        n = [next(devices) for _ in group.views]
        rows = [
            _view(view, own, mechanism, places, shares, random)
            for view, own in zip(group.views, n, strict=True)
        ]
        tallies.append(Tally(np.array(n), np.stack(rows)))
    return tallies


def _view(
    view: View,
    devices: int,
    mechanism: Mechanism,
    places: NDArray[np.int64],
    shares: Floats,
    random: np.random.Generator,
) -> Any:
    joint = random.multinomial(devices, joint_shares(shares).ravel()).reshape(len(LABELS), -1)
    if view.attributes == (0,):
        cells = joint.sum(axis=1)
    else:
        own = places[: len(shares), view.attributes[-1] - 1]
        table = np.array([np.bincount(own, row, BUCKETS) for row in joint]).astype(np.int64)
        cells = table.sum(axis=0) if len(view.attributes) == 1 else table.ravel()
    return mechanism.draw_tally(cells, random)


def joint_shares(shares: Floats) -> Floats:
    """Return shares by label and word: shape (labels, words)."""
    joint = np.outer(LABELS, shares)
    joint[:, 0] = [0.0] * (len(LABELS) - 1) + [shares[0]]
    return joint


def formula(estimates: BucketShares, shares: Floats) -> float:
    """Return the expected error of the plain mean over hashes."""
    keep = 1.0 - 1.0 / BUCKETS
    collisions = np.square(shares).sum() / (BUCKETS * HASHES * keep)
    return float(np.sqrt(estimates.noise.mean() / (HASHES * keep) + collisions))


def held(found: Words, truth: Floats) -> float:
    return float((np.abs(found.shares - truth) <= 1.96 * found.stderr).mean())


def measure(power: int, epsilon: str) -> dict[str, float]:
    rows = [_once(power, epsilon, seed) for seed in range(PUBLIC_HASHES)]
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def _once(power: int, epsilon: str, seed: int) -> dict[str, float]:
    random = np.random.default_rng((power, seed, int(10 * float(epsilon))))
    plan = replace(plan_of(1 << power, epsilon), lineage=random.bytes(16).hex())
    shares = 1.0 / np.arange(1, WORDS + 1)
    shares /= shares.sum()
    texts = [f"{kind} {i}".encode() for kind in ("word", "absent") for i in range(WORDS)]
    places = kind_of(plan, "word").all_buckets(texts)
    tallies = counted(plan, places, shares, random)
    truth = np.concatenate([shares, np.zeros(WORDS)])
    (estimates,) = bucket_shares(plan, tallies, "word")
    direct = estimates.values[np.arange(HASHES), places].mean(axis=1) / (1 - 1 / BUCKETS)
    result = {"mean": _rms(direct - truth) / formula(estimates, shares)}
    for name, first in (("", 0), (" unlisted", UNLISTED)):
        result |= _judged(name, decode(estimates, places[first:]), truth[first:], WORDS - first)
    within = bucket_shares(plan, tallies, "word", given=0)
    errors = []
    for one, own in zip(within, joint_shares(shares), strict=True):
        found = decode(one, places)
        errors.append((held(found, np.pad(own, (0, WORDS))), int(found.seen[WORDS:].sum())))
    result["coverage within"] = float(np.mean([coverage for coverage, _ in errors]))
    result["false within"] = 1000 * sum(false for _, false in errors) / (2 * WORDS * len(LABELS))
    return result


def _judged(name: str, found: Words, truth: Floats, present: int) -> Iterator[tuple[str, float]]:
    yield f"coverage{name}", held(found, truth)
    yield f"coverage of 100{name}", held(_first(found, 100), truth[:100])
    yield f"error{name}", _rms(found.shares - truth)
    yield f"seen{name}", float(found.seen.sum())
    yield f"false{name}", 1000 * float(found.seen[present:].sum()) / len(truth)
    yield f"limit{name}", found.limit
    yield f"unexplained{name}", found.unexplained


def _first(found: Words, count: int) -> Words:
    return Words(
        *(a[:count] for a in (found.shares, found.stderr, found.seen, found.collides)),
        found.limit,
        found.unexplained,
    )


def _rms(errors: Floats) -> float:
    return float(np.sqrt(np.square(errors).mean()))


def run() -> None:
    for power, epsilon in CELLS:
        name = f"{power} {epsilon}"
        if STUDY.claim(name):
            try:
                STUDY.put(name, measure(power, epsilon))
            except BaseException:
                STUDY.release(name)
                raise
    table()


def table() -> None:
    shown = Grid(box=None, pad_edge=False)
    columns = ("mean", "error", "coverage", "coverage of 100", "seen", "limit", "false")
    more = ("false unlisted", "coverage unlisted", "coverage within", "false within")
    for title in ("devices", "epsilon", *columns, *more):
        shown.add_column(title, justify="right")
    for name, result in STUDY.read().items():
        power, epsilon = name.split()
        values = [f"{result[column]:.3g}" for column in (*columns, *more)]
        shown.add_row(f"2^{power}", epsilon, *values)
    Console(width=140).print(shown)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=("table",), help="print what is there")
    table() if parser.parse_args().part else run()
