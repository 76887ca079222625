"""The Castell paper's thresholds, bounds, synthetic data and inverses, each beside ours.

``python -m benchmarks.castell.paper`` prints Table III, Theorems 5 and 6, and Figs. 4 and 8 to 11.
It takes about a minute.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import combinations
from math import exp, log

import numpy as np

from benchmarks.populations import DATA, population
from calmstream.estimators.arrays import Floats
from calmstream.estimators.numerics.block_inverse import AxisChannel, expected_sse
from calmstream.estimators.papers.castell import schemes
from calmstream.tables.records import read_texts

ADULT_N = 32_561
RUNS = 20


def grr(cells: Sequence[int], epsilon: float) -> tuple[AxisChannel, ...]:
    return tuple(
        AxisChannel(
            (i,), r, (exp(epsilon) - 1) / (exp(epsilon) + r - 1), 1 / (exp(epsilon) + r - 1)
        )
        for i, r in enumerate(cells)
    )


def castell(observed: Floats, matrices: Sequence[Floats]) -> Floats:
    """Return Algorithm 3 for any invertible matrices P[true, reported], one for each axis."""
    out = observed
    for axis, matrix in enumerate(matrices):
        out = np.moveaxis(np.tensordot(np.linalg.inv(matrix.T), out, (1, axis)), 0, axis)
    return out


def least_n(d: int, w: int, epsilon: float) -> float:
    """Return n*, beyond which the bound of the joint estimate is the smaller one."""
    return (1 + (d - 1) / exp(epsilon / w)) ** w * d**w / max(d**-w, 1 / d - d**-w)


def least_epsilon(d: int, w: int, n: int) -> float:
    """Return epsilon*, of all attributes together."""
    return w * log((d - 1) / ((1 / d - d**-w) ** (1 / w) * n ** (1 / w) / d - 1))


def most_w(d: int, n: int) -> float:
    """Return w*, below which the joint estimate is to be used."""
    return (log(n) - log(d)) / log(d * d)


def shared(v: float, d: int) -> Floats:
    """Return Fig. 9's population: margins c / a for a = 2..d + 1, and Cramer's V of exactly v."""
    margin = 1 / np.arange(2.0, d + 2)
    margin /= margin.sum()
    return v * np.diag(margin) + (1 - v) * np.outer(margin, margin)


def estimates(truth: Floats, epsilon: float, n: int, random: np.random.Generator) -> list[Floats]:
    """Return the joint and the product estimate of n randomised records."""
    factors = grr(truth.shape, epsilon)
    records = random.multinomial(n, truth.ravel()) / n
    rows = [f.gap * np.eye(f.cells) + f.q for f in factors]
    chances = reduce(np.kron, rows)
    reported = sum(
        random.multinomial(round(c * n), row) for c, row in zip(records, chances, strict=True)
    )
    observed = np.reshape(reported, truth.shape) / n
    real = records.reshape(truth.shape)
    return [s(observed, factors, n).table - real for s in (schemes.joint, schemes.independent)]


def mae(truth: Floats, epsilon: float, n: int) -> tuple[float, float]:
    runs = [estimates(truth, epsilon, n, np.random.default_rng(r)) for r in range(RUNS)]
    return tuple(float(np.mean([np.abs(run[i]).mean() for run in runs])) for i in (0, 1))


def thresholds() -> Iterator[str]:
    yield "| d | w | epsilon, all | n* | epsilon* at n = 32,561 | w* |\n|--:|--:|--:|--:|--:|--:|"
    for d, w, epsilon in ((16, 2, 1.0), (16, 2, 2.0), (16, 2, 4.0), (2, 2, 1.0), (5, 2, 1.0)):
        found = least_epsilon(d, w, ADULT_N)
        numbers = f"{least_n(d, w, epsilon):,.0f} | {found:.3f} | {most_w(d, ADULT_N):.3f}"
        yield f"| {d} | {w} | {epsilon:g} | {numbers} |"


def bounds() -> Iterator[str]:
    yield "| d | w | epsilon each | n | Theorem 6 | deviation of a cell | Theorem 5 |"
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    for d, w, epsilon, n in (
        (2, 2, 0.5, 10**6),
        (2, 2, 0.5, 10**4),
        (5, 2, 1.0, ADULT_N),
        (16, 2, 1.0, ADULT_N),
        (16, 2, 4.0, ADULT_N),
    ):
        factors = grr([d] * w, epsilon)
        rounding, dependence = schemes.bounds(factors, n)
        deviation = (expected_sse(factors, n) / d**w) ** 0.5
        numbers = f"{rounding:.3g} | {deviation:.3g} | {dependence:.3g}"
        yield f"| {d} | {w} | {epsilon:g} | {n:,} | {numbers} |"


def domain_size() -> Iterator[str]:
    """Fig. 4: AVD against |Omega| over all subsets of Adult, from the exact deviations."""
    table = population("adult")
    for epsilon in (1.0, 4.0):
        points = []
        for w in (2, 3, 4):
            for own in combinations(range(len(table.domain)), w):
                shape = table.domain.shape(own)
                if np.prod(shape) <= 1 << 14:
                    truth = table.domain.histogram(table.codes, own).reshape(shape) / len(
                        table.codes
                    )
                    spread = np.sqrt(schemes.joint(truth, grr(shape, epsilon), ADULT_N).variance)
                    noise = np.random.default_rng(1).normal(size=(RUNS, *shape)) * spread
                    largest = np.abs(noise).reshape(RUNS, -1).max(axis=1)
                    points.append((np.prod(shape), largest.mean()))
        x, y = np.array(points).T
        slope, start = np.polyfit(x, y, 1)
        power = np.polyfit(np.log(x), np.log(y), 1)[0]
        fit = f"AVD = {start:.3g} + {slope:.3g} |Omega|, R2 {np.corrcoef(x, y)[0, 1] ** 2:.2f}"
        yield f"epsilon {epsilon:g} each, {len(x)} sets: {fit}; slope of logarithms {power:.2f}"


def inverses() -> Iterator[str]:
    yield "| w | naive | reduced | castell | cells of the first two / castell's |"
    yield "|--:|--:|--:|--:|--:|"
    one = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    ways: list[Callable[[Floats, list[Floats]], Floats]] = [
        lambda table, own: np.linalg.inv(reduce(np.kron, own).T) @ table.ravel(),
        lambda table, own: reduce(np.kron, [np.linalg.inv(m.T) for m in own]) @ table.ravel(),
        lambda table, own: castell(table, own).ravel(),
    ]
    for w in range(2, 7):
        observed = np.random.default_rng(w).dirichlet(np.ones(3**w)).reshape([3] * w)
        answers, times = [], []
        for way in ways:
            started = time.perf_counter()
            answers.append(way(observed, [one] * w))
            times.append(time.perf_counter() - started)
        assert all(np.allclose(a, answers[0]) for a in answers)
        yield f"| {w} | " + " | ".join(f"{1e3 * t:.2f} ms" for t in times) + f" | {3**w} |"


def synthetic() -> Iterator[str]:
    yield "| varied | value | MAE joint | MAE product |\n|---|--:|--:|--:|"
    settings = [("V", v, shared(v, 10), 1.0, 1000) for v in (0.0, 0.25, 0.5, 0.75, 1.0)]
    settings += [("epsilon", e, shared(0.5, 10), e, 1000) for e in (0.1, 0.5, 1.0, 2.0)]
    settings += [("n", n, shared(0.5, 10), 1.0, n) for n in (10, 100, 1000, 10_000)]
    settings += [("d", d, shared(0.5, d), 1.0, 1000) for d in (2, 5, 10, 20)]
    for name, value, truth, epsilon, n in settings:
        joint, product = mae(truth, epsilon, n)
        yield f"| {name} | {value:g} | {joint:.3g} | {product:.3g} |"


def age_and_sex() -> Iterator[str]:
    """Fig. 11: age in bins of twenty years and sex, epsilon 1 each."""
    texts = read_texts(str(DATA / "adult.csv.gz"), ["age", "sex"])
    ages = np.minimum(np.array(texts["age"], int) // 20, 4)
    codes = ages * 2 + (np.array(texts["sex"]) == "Female")
    truth = (np.bincount(codes, minlength=10) / len(codes)).reshape(5, 2)
    runs = [estimates(truth, 1.0, len(codes), np.random.default_rng(r)) for r in range(RUNS)]
    for i, name in enumerate(("joint", "product")):
        errors = np.abs([run[i] for run in runs])
        largest = errors.reshape(RUNS, -1).max(axis=1).mean()
        yield f"{name}: MAE {errors.mean():.2g}, AVD {largest:.2g}"


PARTS = {
    "Table III: thresholds": thresholds,
    "Theorems 5 and 6, beside the standard deviation of a cell": bounds,
    "Fig. 4": domain_size,
    "Fig. 8: time of the inverse of w matrices of 3 labels": inverses,
    "Fig. 9, 10: V = .5, epsilon 1 each, n = 1,000, d = 10, and one of them varied": synthetic,
    "Fig. 11": age_and_sex,
}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    for name, lines in PARTS.items():
        print(f"\n{name}\n")
        for line in lines():
            print(line, flush=True)


if __name__ == "__main__":
    main()
