"""Tables of tests of independence, dependence trees and failures of InpEM, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.accuracy.applications import METHODS, PAIRS, TREE_EPSILONS
from benchmarks.accuracy.em_failures import ROWS
from benchmarks.accuracy.measure import Ledger

INDEPENDENCE = (
    "Six pairs of taxi attributes, {runs} runs on fresh devices; critical value 3.84 without "
    "noise. Medians; detected: share of runs whose statistic exceeds the noise-aware critical "
    "value."
)
TREES = (
    "True total mutual information (nats) of the tree learnt from private tables, {runs} runs, "
    "± 2 standard errors. Best tree without privacy: {exact:.4f}; a tree drawn blindly (what "
    "uniform tables give): {random:.4f}."
)
FAILURES = (
    "Failed: within 1e-5 of the uniform table in every cell. Paper's stop: change below 1e-5. "
    "Discrepancy: the deviance has fallen to the median of its law under the truth; where the "
    "uniform table explains the reports as well as the truth would, it is the answer. Most likely: "
    "nothing left to gain. TV: mean total variation. Taxi, columns repeated to reach d."
)


def _all(ledger: Ledger, key: str, name: str) -> np.ndarray:
    """Return one number of an experiment for all repeats."""
    return np.array([r[name] for r in ledger.results(key)], float)


def independence(ledger: Ledger) -> str:
    """Return Fig. 7: statistics of dependent pairs, and the share of independent ones rejected."""
    runs = len(ledger.results(f"pairs {METHODS[0]}"))
    heads = [f"{m}: statistic (critical), detected" for m in METHODS]
    lines = [
        "# Tests of independence, N = 2^18, epsilon = 1.1",
        "",
        INDEPENDENCE.format(runs=runs),
        "",
        "| pair | without privacy | " + " | ".join(heads) + " |",
        "|---|---:|" + "---:|" * len(METHODS),
    ]
    for names in PAIRS:
        name = "-".join(names)
        exact = np.median(_all(ledger, f"pairs {METHODS[0]}", f"{name} exact"))
        cells = []
        for method in METHODS:
            key = f"pairs {method}"
            statistic = np.median(_all(ledger, key, f"{name} statistic"))
            critical = np.median(_all(ledger, key, f"{name} critical"))
            detected = _all(ledger, key, f"{name} dependent").mean()
            cells.append(f"{statistic:,.0f} ({critical:,.0f}), {detected:.0%}")
        lines.append(f"| {name} | {exact:,.0f} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "Truly independent pairs with taxi's margins: share rejected at the 5 % level.",
        "",
        "| method | tests | noise-aware | as in the paper (3.84) |",
        "|---|---:|---:|---:|",
    ]
    for method in METHODS:
        key = f"size {method}"
        tests = _all(ledger, key, "pairs").sum()
        aware, plain = (_all(ledger, key, n).sum() / tests for n in ("noise-aware", "uncorrected"))
        lines.append(f"| {method} | {tests:,.0f} | {aware:.1%} | {plain:.1%} |")
    return "\n".join(lines) + "\n"


def trees(ledger: Ledger) -> str:
    """Return Fig. 8: the true mutual information of learnt trees by method."""
    first = f"{METHODS[0]} epsilon={TREE_EPSILONS[0]}"
    runs = len(ledger.results(first))
    exact = _all(ledger, first, "exact").mean()
    random = np.concatenate(
        [_all(ledger, f"{m} epsilon={e}", "random") for m in METHODS for e in TREE_EPSILONS]
    ).mean()
    lines = [
        "# Chow-Liu trees on MovieLens, d = 10, N = 200,000",
        "",
        TREES.format(runs=runs, exact=exact, random=random),
        "",
        "| method | " + " | ".join(f"epsilon = {e}" for e in TREE_EPSILONS) + " |",
        "|---|" + "---:|" * len(TREE_EPSILONS),
    ]
    for method in METHODS:
        runs_of = [_all(ledger, f"{method} epsilon={e}", "private") for e in TREE_EPSILONS]
        mean = [float(v.mean()) for v in runs_of]
        error = [2 * float(v.std(ddof=1)) / np.sqrt(v.size) if v.size > 1 else 0.0 for v in runs_of]
        pairs = zip(mean, error, strict=True)
        lines.append(f"| {method} | " + " | ".join(f"{m:.4f} ± {e:.4f}" for m, e in pairs) + " |")
    return "\n".join(lines) + "\n"


def em_failures(ledger: Ledger) -> str:
    """Return Table 3: the number of failed marginals of InpEM by each stop rule."""
    heads = "paper | paper's stop | TV | discrepancy | TV | most likely | TV"
    lines = [
        "# InpEM: marginals that come back as the uniform table",
        "",
        FAILURES,
        "",
        f"| N | d | k | epsilon | {heads} | runs |",
        "|---|" + "---:|" * 11,
    ]
    for i, (power, d, k, epsilon, published) in enumerate(ROWS):
        key = f"row {i}"
        runs = len(ledger.results(key))
        if not runs:
            continue
        of = _all(ledger, key, "change of").mean()
        cells = []
        for stop in ("change", "discrepancy", "likelihood"):
            failed, tv = (_all(ledger, key, f"{stop} {what}").mean() for what in ("failed", "tv"))
            cells += [f"{failed:.3g}/{of:.0f}", f"{tv:.3f}"]
        lines.append(
            f"| 2^{power} | {d} | {k} | {epsilon} | {published} | "
            + " | ".join(cells)
            + f" | {runs} |"
        )
    return "\n".join(lines) + "\n"


APPLICATIONS: Mapping[str, Callable[[Ledger], str]] = {
    "cormode-fig7": independence,
    "cormode-fig8": trees,
    "cormode-table3": em_failures,
}
