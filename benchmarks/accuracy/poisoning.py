"""Measure how often the test for forged reports detects them, and how often it is wrong.

    python -m benchmarks.accuracy.poisoning [--windows W]

The test (`analysis.poisoning`) compares the counts of a window between the groups of
devices that answer different views (sets of attributes). For windows without forged reports the
program prints how many look suspicious, and how many at a level of 1 %. For windows with forged
reports it prints the percentage that look suspicious, by the share of forged reports.

Forged reports maximise the estimated share of one cell. There are three cases: "added" to one
group; "replaced", where they replace honest reports so that the size of the group does not change;
and "spread" over all groups, so that sizes and overlapping views agree, which is the hardest to
detect.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from calmstream.estimators.analysis.poisoning import examine
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from tests.support.attacks.forgery import honest, skewed, with_forged
from tests.support.plans import draft, mixed_domain

USERS = 60_000
"""Honest reports of a window."""

PARTS = (0.0025, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Forged reports, as shares of the honest ones."""


def replaced(plan: Plan, group: int, forged: int, dice: np.random.Generator) -> list[Tally]:
    """Replace honest reports of a group by as many forged ones."""
    truth = skewed(plan.domain, dice)
    tallies = honest(plan, truth, USERS, dice)
    n = int(tallies[group].n[0])
    forged = min(forged, n // 2)
    view = plan.groups[group].views[0].attributes
    shares = truth.sum(axis=tuple(i for i in range(truth.ndim) if i not in view)).ravel()
    values = dice.multinomial(n - forged, shares / shares.sum())
    counts = plan.mechanisms[group].draw_tally(values, dice)
    tallies[group] = Tally(np.array([n - forged]), counts[None, :])
    return with_forged(tallies, plan, group, forged, "mga")


def attacked(plan: Plan, how: str, part: float, dice: np.random.Generator) -> list[Tally]:
    """Return the tallies of a window with forged reports, one tally for each group."""
    forged = round(part * USERS)
    if how == "replaced":
        return replaced(plan, 0, forged, dice)
    tallies = honest(plan, skewed(plan.domain, dice), USERS, dice)
    if how == "added":
        return with_forged(tallies, plan, 0, forged, "mga")
    for group in range(len(plan.groups)):
        tallies = with_forged(tallies, plan, group, forged // len(plan.groups), "mga")
    return tallies


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=2000)
    args = parser.parse_args()
    plans = {
        "GRR": draft(Domain.binary(5), "2", USERS, 2)[0],
        "OUE": draft(mixed_domain(4, 5, 3, 4), "1", USERS, 2)[0],
    }
    for name, plan in plans.items():
        dice = np.random.Generator(np.random.PCG64(1))
        p = [
            examine(plan, honest(plan, skewed(plan.domain, dice), USERS, dice)).p
            for _ in range(args.windows)
        ]
        print(
            f"{name}, {len(plan.groups)} groups, {USERS:,} reports: of {args.windows:,} honest "
            f"windows {sum(x < 1e-4 for x in p)} suspicious, {sum(x < 0.01 for x in p)} below 1 %"
        )
        print(f"  {'forged':>10}" + "".join(f"{100 * part:8.2f} %" for part in PARTS))
        for how in ("added", "replaced", "spread"):
            # Of 100 windows, so that the numbers are percentages.
            suspicious = [
                sum(examine(plan, attacked(plan, how, part, dice)).suspicious for _ in range(100))
                for part in PARTS
            ]
            print(f"  {how:>10}" + "".join(f"{s:8} %" for s in suspicious))
    return 0


if __name__ == "__main__":
    sys.exit(main())
