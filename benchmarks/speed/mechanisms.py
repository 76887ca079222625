"""Measure for every mechanism how many reports one core randomises and counts per second.

    python -m benchmarks.speed.mechanisms [--reports 1000000] [--repeats 5] [--only grr,oue]

It prints a Markdown table in millions of reports per second of processor time, the best of the
repeats:

- *perturb*: randomise values. ``seeded`` takes random bytes from the generator PCG64, ``system``
  from the operating system; the difference is the cost of the randomness;
- *tally*: count reports of one view; of 50 views at once; and in batches of 1,000, the size of a
  record of the stream;
- *reference*: the same work by code for one mechanism only, for comparison.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.mechanisms import MECHANISMS, Mechanism, standard
from calmstream.estimators.randomness import SeededRandomness, SystemRandomness

EPSILON = "1"
DOMAINS = (16, 64, 256)
VIEWS = 50
BATCH = 1000

# Rates of numpy code written for one mechanism only, in millions of reports per second:
# (perturb, tally) by number of cells. They were measured with PCG64.
REFERENCE: dict[str, dict[int, tuple[float, float]]] = {
    "grr": {16: (74, 721), 64: (83, 720), 256: (89, 679)},
    "oue": {16: (38, 347), 64: (18, 225), 256: (4.6, 46)},
    "olh": {16: (43, 24), 64: (43, 5.9), 256: (51, 1.4)},
    "hadamard-response": {16: (194, 456), 64: (197, 448), 256: (202, 435)},
    "hadamard-coefficient": {2: (194, 456)},
}


def rate(reports: int, repeats: int, call: Callable[[], object]) -> float:
    """Return millions of reports a second, best of the repeats."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return reports / best / 1e6


def measure(mechanism: Mechanism, n: int, repeats: int) -> dict[str, float]:
    """Return the rates of a mechanism over n reports, by column of the table."""
    rng = np.random.default_rng(1)
    values = rng.integers(0, mechanism.cells, n)
    view = rng.integers(0, VIEWS, n)
    seeded, system = SeededRandomness(2), SystemRandomness()
    reports = mechanism.perturb(values, seeded)
    batches = [
        {name: column[a : a + BATCH] for name, column in reports.items()}
        for a in range(0, min(n, 100 * BATCH), BATCH)
    ]

    def tally_batches() -> NDArray[Any]:
        return np.sum([mechanism.tally(batch, None, 1) for batch in batches], axis=0)

    return {
        "seeded": rate(n, repeats, lambda: mechanism.perturb(values, seeded)),
        "system": rate(n, repeats, lambda: mechanism.perturb(values, system)),
        "tally": rate(n, repeats, lambda: mechanism.tally(reports, None, 1)),
        "views": rate(n, repeats, lambda: mechanism.tally(reports, view, VIEWS)),
        "batch": rate(len(batches) * BATCH, repeats, tally_batches),
    }


def shown(value: float | None) -> str:
    """Return a rate as text: whole from 20 on, two digits below, a dash if there is none."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 20 else f"{value:.2g}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--reports", type=int, default=1_000_000)
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--only", default=",".join(MECHANISMS))
    options = arguments.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"numpy {np.__version__}, epsilon {EPSILON}, {options.reports:,} reports, "
        f"best of {options.repeats}, millions per processor second\n"
    )
    titles = ["perturb seeded", "perturb system", "tally", f"tally {VIEWS} views",
              f"tally batches of {BATCH:,}", "reference perturb", "reference tally"]  # fmt: skip
    print("| mechanism | cells | " + " | ".join(titles) + " |")
    print("|---|---|" + "---|" * len(titles))
    for name in options.only.split(","):
        for cells in (2,) if name == "hadamard-coefficient" else DOMAINS:
            # Subset selection over large domains takes microseconds per report: measure fewer.
            slow = name == "subset-selection" and cells >= DOMAINS[1]
            n = options.reports // 10 if slow else options.reports
            rates = measure(standard(name, EPSILON, cells), n, options.repeats)
            reference = REFERENCE.get(name, {}).get(cells, (None, None))
            row = " | ".join(map(shown, (*rates.values(), *reference)))
            print(f"| {name} | {cells} | {row} |", flush=True)


if __name__ == "__main__":
    main()
