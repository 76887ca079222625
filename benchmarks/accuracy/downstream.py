"""What made-up records are good for: an SVM trained on them, and the likelihood of new records.

- ``svm``: Adult's income from its other seven attributes, a linear SVM on one column per label, as
  many records as devices. Trained on records that are true, or drawn from the tables of a method at
  each epsilon (`calmstream synthesize`); the share of held-out true records that it gets wrong.
  Beside them a tree of true tables, and for CALM the joint table of largest entropy that has all
  its pairs.
- ``likelihood``: mean log likelihood of held-out records, in nats, by the tree, the model and
  independent attributes. Each distribution is mixed with .1 % of the even one, so that no record is
  impossible.

A fifth of the records is held out; devices are drawn from the others. Five repeats.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from benchmarks.populations import first, population
from calmstream.estimators import methods
from calmstream.estimators.analysis.synthetic import (
    Branch,
    Mixture,
    TreeDistribution,
    mixture_of,
    tree_of,
)
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes, Codes, Domain
from calmstream.estimators.marginal import Marginal
from calmstream.estimators.methods.base import Model, Request
from calmstream.estimators.numerics.raking import rake
from calmstream.evaluation.population import collect, local_plan

DEVICES = 1 << 18
EPSILONS = ("0.2", "0.5", "1", "2", "4")
SETS = (("adult", 8), ("census3", 8), ("kosarak", 16), ("taxi", 8))
SOURCES = ("true", "true tree", "model", "tree", "calm", "calm tree", "uniform")
REPEATS, EVEN, HELD, ROUNDS = 5, 1e-3, 2000, 15


def split(codes: Codes, repeat: int) -> tuple[Codes, Codes]:
    random = np.random.default_rng((81, repeat))
    order = random.permutation(len(codes))
    fifth = len(codes) // 5
    chosen = random.choice(order[fifth:], DEVICES)
    return codes[chosen], codes[order[:fifth]]


def fitted(method: str, domain: Domain, codes: Codes, epsilon: str, repeat: int) -> Model:
    plan = local_plan(methods.get(method), Request(domain, epsilon, DEVICES, 3))
    seed = np.random.SeedSequence((82, repeat))
    return methods.get(method).fit(plan, collect(plan, codes, seed, exact=True))


class TrueTables:
    def __init__(self, domain: Domain, codes: Codes) -> None:
        self._domain, self._codes = domain, codes

    def marginal(self, attributes: Attributes) -> Marginal:
        table = self._domain.histogram(self._codes, attributes) / len(self._codes)
        return Marginal(attributes, table, np.zeros_like(table), len(self._codes), ())


def joint(model: Model, domain: Domain, random: np.random.Generator) -> Codes:
    """Draw records from the table of largest entropy that has all pairs of a model."""
    shape = domain.cardinalities
    pairs = [
        (pair, model.marginal(pair).table.reshape(1, *domain.shape(pair)))
        for pair in combinations(range(len(shape)), 2)
    ]
    table = rake(np.full((1, *shape), 1.0 / domain.size()), pairs, ROUNDS)[0]
    drawn = random.choice(table.size, DEVICES, p=table.ravel())
    return np.stack(np.unravel_index(drawn, shape), axis=1).astype(np.uint16)


def made(domain: Domain, codes: Codes, epsilon: str, repeat: int) -> Iterator[tuple[str, Codes]]:
    random = np.random.default_rng((83, repeat))
    yield "true", codes
    yield "true tree", tree_of(TrueTables(domain, codes), domain).sample(DEVICES, random)
    model = fitted("noise-aware", domain, codes, epsilon, repeat)
    yield "model", mixture_of(model, domain).sample(DEVICES, random)
    yield "tree", tree_of(model, domain).sample(DEVICES, random)
    calm = fitted("calm", domain, codes, epsilon, repeat)
    yield "calm", joint(calm, domain, random)
    yield "calm tree", tree_of(calm, domain).sample(DEVICES, random)
    labels = domain.cardinalities
    yield "uniform", random.integers(0, labels, (DEVICES, len(labels))).astype(np.uint16)


def columns(domain: Domain, codes: Codes) -> Floats:
    """Return one column of 0 and 1 for each label of all attributes but the last."""
    parts = [np.eye(r)[codes[:, i]] for i, r in enumerate(domain.cardinalities[:-1])]
    return np.concatenate(parts, axis=1)


def wrong(domain: Domain, train: Codes, held: Codes) -> float:
    """Return the share of held-out records whose last attribute a linear SVM gets wrong."""
    from sklearn.svm import LinearSVC

    rows, weights = np.unique(train, axis=0, return_counts=True)
    fit = LinearSVC(dual=False).fit(columns(domain, rows), rows[:, -1], sample_weight=weights)
    return float(np.mean(fit.predict(columns(domain, held)) != held[:, -1]))


def svm() -> None:
    print("| epsilon | " + " | ".join(SOURCES) + " |\n|--:|" + "--:|" * len(SOURCES))
    table = population("adult")
    for epsilon in EPSILONS:
        errors: dict[str, list[float]] = {}
        for repeat in range(REPEATS):
            codes, held = split(table.codes, repeat)
            for source, train in made(table.domain, codes, epsilon, repeat):
                errors.setdefault(source, []).append(wrong(table.domain, train, held))
        cells = (f"{np.mean(errors[s]):.3f} ± {np.std(errors[s], ddof=1):.3f}" for s in SOURCES)
        print(f"| {epsilon} | " + " | ".join(cells) + " |", flush=True)


def chances(source: TreeDistribution | Mixture, codes: Codes) -> Floats:
    if isinstance(source, Mixture):
        parts = [_mixture(source, codes[i : i + 500]) for i in range(0, len(codes), 500)]
        return np.concatenate(parts)
    found = np.ones(len(codes))
    for branch in source.branches:
        given = 0 if branch.parent is None else codes[:, branch.parent]
        found *= branch.shares[given, codes[:, branch.attribute]]
    return found


def _mixture(source: Mixture, codes: Codes) -> Floats:
    product = np.repeat(source.weights[None].astype(np.float32), len(codes), axis=0)
    for i, share in enumerate(source.shares):
        product *= share.T.astype(np.float32)[codes[:, i]]
    return product.sum(axis=1, dtype=np.float64)


def likelihood() -> None:
    print("| set | epsilon | independence | tree | model |\n|---|--:|--:|--:|--:|")
    for name, d in SETS:
        table = first(name, d)
        assert table is not None
        for epsilon in ("0.5", "2"):
            rows = []
            for repeat in range(REPEATS):
                codes, held = split(table.codes, repeat)
                model = fitted("noise-aware", table.domain, codes, epsilon, repeat)
                tree = tree_of(model, table.domain)
                singles = [model.marginal((i,)).table[None] for i in range(d)]
                alone = TreeDistribution([Branch(i, None, own) for i, own in enumerate(singles)])
                even = EVEN / table.domain.size()
                rows.append(
                    [
                        np.log((1 - EVEN) * chances(source, held[:HELD]) + even).mean()
                        for source in (alone, tree, mixture_of(model, table.domain))
                    ]
                )
            cells = zip(np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1), strict=True)
            shown = " | ".join(f"{mean:.3f} ± {spread:.3f}" for mean, spread in cells)
            print(f"| {name} | {epsilon} | {shown} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("svm", "likelihood"))
    {"svm": svm, "likelihood": likelihood}[parser.parse_args().part]()


if __name__ == "__main__":
    main()
