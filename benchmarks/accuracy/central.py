"""The central statement for many numbers of reports, beside the closed form of the same theorem."""

from __future__ import annotations

from math import exp, log, log1p, sqrt

from calmstream.estimators.numerics.shuffling import central_epsilon

EPSILONS = (0.5, 1.0, 2.0, 4.0)
REPORTS, DELTAS = tuple(10**k for k in range(3, 8)), (1e-6, 1e-9)


def closed_form(epsilon: float, n: int, delta: float) -> float | None:
    """Return the closed form, which is larger; None where it does not hold."""
    if epsilon > log(n / (16.0 * log(2.0 / delta))):
        return None
    root = 8.0 * sqrt(exp(epsilon) * log(4.0 / delta) / n) + 8.0 * exp(epsilon) / n
    return log1p((exp(epsilon) - 1.0) / (exp(epsilon) + 1.0) * root)


def main() -> None:
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
