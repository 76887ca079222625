"""Central privacy: statements about reports, and the noise that numerical composition saves."""

from __future__ import annotations

import argparse
from math import exp, log, log1p, sqrt

from dp_accounting.pld import privacy_loss_distribution as pld

from calmstream.estimators.central.accounting import allocate, zcdp_variance
from calmstream.estimators.numerics.shuffling import central_epsilon

EPSILONS = (0.5, 1.0, 2.0, 4.0)
REPORTS, DELTAS = tuple(10**k for k in range(3, 8)), (1e-6, 1e-9)


def closed_form(epsilon: float, n: int, delta: float) -> float | None:
    """Return the closed form, which is larger; None where it does not hold."""
    if epsilon > log(n / (16.0 * log(2.0 / delta))):
        return None
    root = 8.0 * sqrt(exp(epsilon) * log(4.0 / delta) / n) + 8.0 * exp(epsilon) / n
    return log1p((exp(epsilon) - 1.0) / (exp(epsilon) + 1.0) * root)


def delta_bounds(
    epsilon: float, precision: float, quantiles: int, each: float
) -> tuple[float, float]:
    """Return a lower and an upper bound of a release's delta, by Google's library."""
    found = []
    for upper in (False, True):
        given = {"pessimistic_estimate": upper, "value_discretization_interval": 1e-4}
        deviation = 1 / sqrt(precision)
        whole = pld.from_gaussian_mechanism(deviation, use_connect_dots=upper, **given)
        step = pld.from_randomized_response(2 / (1 + exp(each)), 2, **given)
        found.append(whole.compose(step.self_compose(quantiles)).get_delta_for_epsilon(epsilon))
    return found[0], found[1]


def composition() -> None:
    """Print the noise by numerical composition over that by zCDP, and bounds of its delta."""
    print("\n| T | epsilon | noise | over zCDP's | epsilon by zCDP | delta / 5e-7, between |")
    print("|--:|--:|--:|--:|--:|--:|")
    for levels in (1, 2, 3, 4):
        for epsilon in ("0.5", "1", "2", "4", "8"):
            new = allocate(epsilon, "1e-6", levels, 1)
            old = zcdp_variance(epsilon, "1e-6", levels, 1)
            numbers = float(new.precision), levels, float(new.quantile_epsilon)
            low, high = (delta / 5e-7 for delta in delta_bounds(float(epsilon), *numbers))
            noise, ratio = new.variance**0.5, (new.variance / old) ** 0.5
            print(
                f"| {levels} | {epsilon} | {noise:.3f} | {ratio:.3f} | "
                f"{new.zcdp_epsilon('1e-6'):.3f} | {low:.4f}, {high:.4f} |",
                flush=True,
            )


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    composition()
    for delta in DELTAS:
        print(f"\ndelta {delta:g}\n")
        print("| honest reports | " + " | ".join(f"epsilon {e:g}" for e in EPSILONS) + " |")
        print("|---:|" + "---:|" * len(EPSILONS))
        for n in REPORTS:
            cells = []
            for epsilon in EPSILONS:
                form = closed_form(epsilon, n, delta)
                shown = "-" if form is None else f"{form:.3g}"
                cells.append(f"{central_epsilon(epsilon, n, delta):.3g} ({shown})")
            print(f"| {n:,} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
