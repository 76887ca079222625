"""Compare errors with those of the best unbiased mechanisms: workload factorisation.

A mechanism for N = 2^8 records is a matrix of probabilities; the least variances of unbiased
estimates from its reports follow from the matrix (McKenna et al., "A workload-adaptive mechanism
for linear queries under local differential privacy", VLDB 2020). The workload is all tables of
three of eight bits. It does not change if bits are flipped or permuted, so neither need the best
mechanism, whose error is convex: it is a mixture of mechanisms that draw a random flip and
permutation and say, with the ratio e^epsilon, whether the changed record is in a set A of records.

With A's Walsh-Hadamard coefficients a(S) and its share p of all records, one report gives the
moment of S the information ``(e^epsilon - 1)^2 a(S)^2 / (1 + (e^epsilon - 1) p)^2``. The table's
error for one report of even records is the sum over S of cost(S) / information(S).

- *Reached* is the error of a mixture of sets, found by local search.
- *Bound*: the squares of all coefficients but the first sum to p (1 - p), so no mixture has a
  total information above (e^epsilon - 1)^2 / (4 e^epsilon). The least error under this condition is
  below that of every mechanism.

    python -m benchmarks.accuracy.factorisation
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import comb, exp
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.study import Study
from calmstream.estimators.numerics.hadamard import parity, transform

Floats = NDArray[np.float64]

D, K = 8, 3
EPSILONS = ("0.2", "0.5", "1", "2")
GRID = Path(__file__).resolve().parents[1] / "results" / "grid.jsonl"
OTHERS = ("noise-aware", "calm")
BITS = ("kosarak", "pos", "movielens", "taxi")
"""Data sets of the grid whose attributes are bits."""


class Mixtures:
    """Mixtures of sets of records at one epsilon, over d bits and for all tables of k of them.

    Attributes:
        costs: what an error of all moments of an order adds to a table: shape (k,).
    """

    def __init__(self, d: int, k: int, epsilon: float) -> None:
        """Start with the sets of one bit, of two and so on: each says a parity."""
        self.more = exp(epsilon) - 1.0
        self._order = np.bitwise_count(np.arange(1 << d))
        self._counts = np.array([comb(d, o) for o in range(1, k + 1)], np.float64)
        self.costs = np.array([comb(k, o) for o in range(1, k + 1)]) / 2.0**k
        cells = np.arange(1 << d)
        firsts = [(1 << o) - 1 for o in range(1, k + 1)]
        self.sets = [parity(cells & first).astype(bool) for first in firsts]
        self._k = k

    @cached_property
    def bound(self) -> float:
        """The least error for one report under the condition on the total information."""
        # A moment has the cost c; sum(c / x) with sum(x) at most t is at least sum(sqrt(c))^2 / t.
        roots = np.sqrt(self.costs * self._counts).sum()
        return float(roots**2 / (self.more**2 / (4.0 * (1.0 + self.more))) - self._even())

    def _even(self) -> float:
        """Return what the records' own spread adds, which is known in a table of these devices."""
        return float(self.costs.sum())

    def information(self, members: NDArray[np.bool_]) -> Floats:
        """Return the mean information of the moments of each order: shape (k,)."""
        coefficients = transform(members.astype(np.float64)) / members.size
        share = self.more * coefficients / (1.0 + self.more * members.mean())
        found = [np.square(share[self._order == o]).mean() for o in range(1, self._k + 1)]
        return np.array(found)

    def error(self, weights: Floats, informations: Floats) -> float:
        """Return the error of a mixture for one report."""
        return float((self.costs / (weights @ informations)).sum() - self._even())

    def best_weights(self, informations: Floats, rounds: int = 2000) -> Floats:
        """Return the weights of the sets with the least error, by multiplicative steps."""
        weights = np.full(len(informations), 1.0 / len(informations))
        for _ in range(rounds):
            slope = informations @ (self.costs / np.square(weights @ informations))
            weights *= np.sqrt(slope / (weights @ slope))
            weights /= weights.sum()
        return weights

    def search(self, random: np.random.Generator, tries: int, rounds: int = 30) -> float:
        """Add sets while they lower the error; return the error of the best mixture."""
        informations = np.array([self.information(members) for members in self.sets])
        error = np.inf
        for _ in range(rounds):
            weights = self.best_weights(informations)
            before, error = error, self.error(weights, informations)
            if error > before * (1.0 - 1e-4):
                break
            worth = self.costs / np.square(weights @ informations)
            found = [self._climb(worth, random) for _ in range(tries)]
            informations = np.array([*informations, *map(self.information, found)])
        return error

    def _climb(self, worth: Floats, random: np.random.Generator) -> NDArray[np.bool_]:
        """Return a set of which no change of one record is worth more, from a random start."""
        by_order = np.zeros(self._order.max() + 1)
        by_order[1 : self._k + 1] = worth / self._counts
        cells = self._order.size
        # The worth is the quadratic form of a kernel of the difference of two records.
        kernel = transform(by_order[self._order]) / cells**2
        kernel = kernel[np.arange(cells)[:, None] ^ np.arange(cells)]
        members = random.random(cells) < random.uniform(0.05, 0.6)
        while True:
            sign = np.where(members, -1.0, 1.0)
            inside, size = float(members @ kernel @ members), members.sum()
            changed = inside + 2.0 * sign * (kernel @ members) + kernel[0, 0]
            value = changed / np.square(1.0 + self.more * (size + sign) / cells)
            best = int(value.argmax())
            if value[best] <= inside / (1.0 + self.more * size / cells) ** 2 * (1.0 + 1e-12):
                return np.asarray(members)
            members[best] ^= True


def measured(results: Sequence[dict[str, Any]], epsilon: str) -> dict[str, list[float]]:
    """Return the errors for one report of each method in the grid's cells of eight bits."""
    found: dict[str, list[float]] = {name: [] for name in OTHERS}
    for result in results:
        cell = result["cell"]
        own = (cell["d"], cell["k"], cell["epsilon"]) == (D, K, epsilon)
        if own and cell["dataset"] in BITS:
            for name in OTHERS:
                found[name].append(float(np.mean(result["errors"][name])) * 2 ** cell["log_users"])
    return found


def main() -> None:
    """Print the table."""
    print(f"n times the squared error of a table, all tables of {K} of {D} bits.\n")
    print("| epsilon | bound of unbiased mechanisms | reached by one |", end=" ")
    print(" | ".join(f"{name}: mean, least to largest" for name in OTHERS), end=" |\n")
    print("|--:|--:|--:|--:|--:|")
    results = list(Study(GRID).read().values())
    for epsilon in EPSILONS:
        mixtures = Mixtures(D, K, float(epsilon))
        reached = mixtures.search(np.random.default_rng(1), tries=8)
        row = [f"{mixtures.bound:.1f}", f"{reached:.1f}"]
        for errors in measured(results, epsilon).values():
            mean = float(np.exp(np.log(errors).mean()))
            row.append(f"{mean:.1f}, {min(errors):.1f} to {max(errors):.1f}")
        print(f"| {epsilon} | " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
