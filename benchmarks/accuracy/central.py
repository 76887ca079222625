"""The central statement for many numbers of reports, beside the closed form of the same theorem.

    python -m benchmarks.accuracy.central

The closed form has no value (-) where its condition does not hold.
"""

from __future__ import annotations

from calmstream.estimators.numerics.shuffling import central_epsilon, closed_form

EPSILONS = (0.5, 1.0, 2.0, 4.0)
REPORTS = tuple(10**k for k in range(3, 8))
DELTAS = (1e-6, 1e-9)


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
