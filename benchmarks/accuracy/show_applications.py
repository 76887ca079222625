"""Write tables and plots of the experiments of `benchmarks.accuracy.applications`.

They are the tests of independence (Fig. 7), the dependence trees (Fig. 8) and the failures of InpEM
(Table 3) of Cormode et al. Each function returns the text of a table in Markdown; those of the two
figures also write a plot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.accuracy.applications import (
    PAIRS,
    TEST_METHODS,
    TREE_EPSILONS,
    TREE_METHODS,
)
from benchmarks.accuracy.em_failures import ROWS
from benchmarks.accuracy.measure import RESULTS, Ledger

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
    """Return Fig. 7: two tables about tests of independence; write the plot.

    The first one has, for each pair of attributes, the statistic with both critical values and how
    often dependence is detected. The second one has the share of independent pairs that are
    rejected.
    """
    runs = len(ledger.results(f"pairs {TEST_METHODS[0]}"))
    heads = [f"{m}: statistic (critical), detected" for m in TEST_METHODS]
    lines = [
        "# Tests of independence, N = 2^18, epsilon = 1.1",
        "",
        INDEPENDENCE.format(runs=runs),
        "",
        "| pair | without privacy | " + " | ".join(heads) + " |",
        "|---|---:|" + "---:|" * len(TEST_METHODS),
    ]
    for names in PAIRS:
        name = "-".join(names)
        exact = np.median(_all(ledger, f"pairs {TEST_METHODS[0]}", f"{name} exact"))
        cells = []
        for method in TEST_METHODS:
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
    for method in TEST_METHODS:
        key = f"size {method}"
        tests = _all(ledger, key, "pairs").sum()
        aware, plain = (_all(ledger, key, n).sum() / tests for n in ("noise-aware", "uncorrected"))
        lines.append(f"| {method} | {tests:,.0f} | {aware:.1%} | {plain:.1%} |")
    _plot_pairs(ledger)
    return "\n".join(lines) + "\n"


def _plot_pairs(ledger: Ledger) -> None:
    drawing, axis = plt.subplots(figsize=(10, 4.2))
    names = ["-".join(pair) for pair in PAIRS]
    place = np.arange(len(names))
    exact = [np.median(_all(ledger, f"pairs {TEST_METHODS[0]}", f"{n} exact")) for n in names]
    axis.plot(place - 0.3, exact, "k_", markersize=14, label="without privacy")
    for i, method in enumerate(TEST_METHODS):
        key = f"pairs {method}"
        statistics = np.array([_all(ledger, key, f"{n} statistic") for n in names])
        low, middle, high = np.quantile(statistics, [0.05, 0.5, 0.95], axis=1)
        x = place - 0.1 + 0.2 * i
        bars = [middle - low, high - middle]
        axis.errorbar(x, middle, bars, fmt="o", markersize=4, capsize=3, label=method)
        critical = [np.median(_all(ledger, key, f"{n} critical")) for n in names]
        axis.plot(x, critical, "r_", markersize=12, label="critical, noise-aware" if i == 0 else "")
    axis.axhline(3.84, color="black", linestyle="--", linewidth=0.8, label="critical, uncorrected")
    axis.set_yscale("log")
    axis.set_xticks(place, names, fontsize=8)
    axis.set_ylabel("chi-square")
    axis.set_title("Chi-square of taxi pairs: median, 5 % to 95 % of runs", fontsize=9)
    axis.legend(fontsize=7)
    drawing.tight_layout()
    drawing.savefig(RESULTS / "cormode-fig7.png", dpi=90, metadata={"Software": None})
    plt.close(drawing)


def trees(ledger: Ledger) -> str:
    """Return Fig. 8: the true mutual information of learnt trees by method; write the plot."""
    first = f"{TREE_METHODS[0]} epsilon={TREE_EPSILONS[0]}"
    runs = len(ledger.results(first))
    exact = _all(ledger, first, "exact").mean()
    random = np.concatenate(
        [_all(ledger, f"{m} epsilon={e}", "random") for m in TREE_METHODS for e in TREE_EPSILONS]
    ).mean()
    lines = [
        "# Chow-Liu trees on MovieLens, d = 10, N = 200,000",
        "",
        TREES.format(runs=runs, exact=exact, random=random),
        "",
        "| method | " + " | ".join(f"epsilon = {e}" for e in TREE_EPSILONS) + " |",
        "|---|" + "---:|" * len(TREE_EPSILONS),
    ]
    drawing, axis = plt.subplots(figsize=(6.5, 4))
    for method in TREE_METHODS:
        runs_of = [_all(ledger, f"{method} epsilon={e}", "private") for e in TREE_EPSILONS]
        mean = [float(v.mean()) for v in runs_of]
        error = [2 * float(v.std(ddof=1)) / np.sqrt(v.size) if v.size > 1 else 0.0 for v in runs_of]
        pairs = zip(mean, error, strict=True)
        lines.append(f"| {method} | " + " | ".join(f"{m:.4f} ± {e:.4f}" for m, e in pairs) + " |")
        x = [float(e) for e in TREE_EPSILONS]
        axis.errorbar(x, mean, error, marker=".", capsize=2, label=method)
    axis.axhline(exact, color="grey", linestyle=":", label="without privacy")
    axis.axhline(random, color="black", linestyle="--", label="uniform (blind tree)")
    axis.set_xlabel("epsilon")
    axis.set_ylabel("true mutual information of the tree (nats)")
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=8)
    drawing.tight_layout()
    drawing.savefig(RESULTS / "cormode-fig8.png", dpi=90, metadata={"Software": None})
    plt.close(drawing)
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
