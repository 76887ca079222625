"""Measure on one core how long CALM's estimation takes, and how much each of its steps gains.

    python -m benchmarks.speed.estimation

It prints three tables: seconds from tallies (counted reports) to published tables; the error of
the tables of CALM's views after each step; and the time to choose the attribute sets that the views
cover. The records come from the data folder; if it is missing they are synthetic, and the output
says so.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

import numpy as np

from calmstream.estimators import methods
from calmstream.estimators.domain import Attributes, Codes, Domain
from calmstream.estimators.marginal import sse
from calmstream.estimators.methods.shared.overlapping import OverlappingTables
from calmstream.estimators.numerics.covering import covering, schoenheim
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.planning import default_marginals
from calmstream.evaluation.evaluate import draw_targets
from calmstream.evaluation.population import collect, draw
from calmstream.tables import read_table

REPEATS = 5
DATA = ROOT.parent / "shared" / "data"


def plan_for(domain: Domain, epsilon: str, users: int, k: int) -> Plan:
    """Return a plan of CALM with one window for k-way marginals."""
    design = methods.get("calm").design(Request(domain, epsilon, users, k))
    return Plan(
        name="bench",
        purpose="benchmark",
        owner="benchmark",
        lineage="0" * 32,
        domain=domain,
        epsilon=epsilon,
        k=k,
        method="calm",
        parameters=design.parameters,
        groups=design.groups,
        start=0,
        expires=60,
        window=60,
        users=users,
        marginals=default_marginals(domain),
    )


def records(name: str, d: int) -> tuple[str, Codes]:
    """Return the name and the records of d binary attributes from a data file.

    If the file is missing, the records are synthetic and the name is "synthetic".
    """
    path = DATA / f"{name}.npz"
    if path.exists():
        return name, read_table(path, attributes=d).codes
    generator = np.random.default_rng(0)
    shares = generator.beta(0.5, 2.0, d)
    return "synthetic", (generator.random((100_000, d)) < shares).astype(np.uint16)


def fitted(plan: Plan, codes: Codes, seed: int) -> OverlappingTables:
    """Fit CALM to tallies drawn from their exact distribution."""
    model = methods.get("calm").fit(
        plan, collect(plan, codes, np.random.SeedSequence(seed), exact=True)
    )
    assert isinstance(model, OverlappingTables)
    return model


def best(action: Callable[[], object]) -> float:
    """Return the seconds of the fastest of `REPEATS` runs."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return min(times)


def refresh(title: str, plan: Plan, codes: Codes, targets: Sequence[Attributes]) -> None:
    """Print the seconds from tallies to all targets: one refresh of the publisher."""
    tallies = collect(plan, codes, np.random.SeedSequence(1), exact=True)

    def run() -> None:
        model = methods.get(plan.method).fit(plan, tallies)
        for target in targets:
            model.marginal(target)

    views = sum(len(group.views) for group in plan.groups)
    print(f"  {title:<52} {views:>4} views {len(targets):>4} tables {best(run):8.3f} s")


def refreshes() -> None:
    """Print the publisher's cost for several plans; l is the number of attributes of a view.

    The cost depends on the plan alone, so the data may be any.
    """
    print("from tallies to tables, one core")
    n = 1 << 18
    _, kosarak = records("kosarak32_first100k", 32)
    sixteen, wide = Domain.binary(16), Domain.binary(32)
    for epsilon, label in (("0.2", "l=2"), ("1.2", "l=3"), ("2", "l=4")):
        plan = plan_for(sixteen, epsilon, n, 3)
        refresh(f"d=16 k=3 {label}: all 1- and 2-way", plan, kosarak[:, :16], plan.marginals)
    triples = draw_targets(16, 3, 50, np.random.default_rng(1))
    refresh("d=16 k=3 l=2: 50 3-way", plan_for(sixteen, "1", n, 3), kosarak[:, :16], triples)
    eights = draw_targets(32, 8, 50, np.random.default_rng(2))
    refresh("d=32 k=8 l=2: 50 8-way", plan_for(wide, "1", 1 << 16, 8), kosarak, eights)


def gains_of_steps() -> None:
    """Print the mean SSE (squared error, summed over cells) of a view's table after each step.

    The steps are: unbiased tables ("raw"), tables that agree where views overlap ("consistent"),
    and tables without negative cells ("non-negative").
    """
    print("\nmean SSE of CALM's views (d=16, k=3, n=2^18, 8 runs): raw > consistent > non-negative")
    for name in ("kosarak32_first100k", "bmspos32_275k"):
        label, codes = records(name, 16)
        domain = Domain.binary(16)
        for epsilon in ("0.2", "1"):
            plan = plan_for(domain, epsilon, 1 << 18, 3)
            errors = np.mean([view_errors(plan, codes, seed) for seed in range(8)], axis=0)
            raw, linear, final = errors
            print(
                f"  {label:<22} eps {epsilon:<4} {raw:.5f} > {linear:.5f} > {final:.5f}   "
                f"(1 : {linear / raw:.2f} : {final / raw:.2f})"
            )


def view_errors(plan: Plan, codes: Codes, seed: int) -> list[float]:
    """Return the mean SSE over views of the raw, the consistent and the non-negative tables."""
    drawn = draw(codes, 1 << 18, np.random.default_rng(seed))
    model = fitted(plan, drawn, seed)
    truth = [plan.domain.histogram(drawn, view) / len(drawn) for view in model.shared.views]
    return [
        float(np.mean([sse(model.shared.table(flat, v), t) for v, t in enumerate(truth)]))
        for flat in (model.raw, model.linear, model.tables)
    ]


def coverings() -> None:
    """Print size and seconds of covering designs: sets of attributes that cover all sets of k.

    C(d, size, k) means sets of ``size`` out of d attributes. The Schoenheim bound is a lower bound
    of the number of sets.
    """
    print("\ncovering designs: greedy size, Schoenheim bound, seconds")
    for d, k, size in ((8, 3, 4), (16, 3, 4), (16, 6, 8), (32, 3, 6), (32, 3, 8), (24, 4, 6)):
        started = time.perf_counter()
        sets = covering.__wrapped__(d, k, size, 10**5)
        seconds = time.perf_counter() - started
        count = "none" if sets is None else len(sets)
        print(f"  C({d},{size},{k})  {count!s:>5}  {schoenheim(d, k, size):>5}  {seconds:7.3f} s")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    refreshes()
    gains_of_steps()
    coverings()
