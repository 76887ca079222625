"""How often intervals of later questions hold the truth, and what the covariance is worth.

Questions are random: one to three attributes, labels in random groups, half of the larger tables
given the first attribute. Counts how many 95 % intervals hold the proportion among the drawn
devices, and compares the error of a grouped cell with that of its cells as if independent. Many
populations are asked a few questions each, as answers about one share its errors.

    python -m benchmarks.accuracy.later
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.populations import population
from calmstream.estimators import methods
from calmstream.estimators.analysis.grouped import GroupedTable, conditional, grouped
from calmstream.estimators.analysis.grouping import Grouping
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.methods.base import Model, Request
from calmstream.estimators.numerics.contraction import contract
from calmstream.evaluation.population import collect, draw, local_plan

LEAST_MASS = 0.01  # combinations of fewer devices are not judged


@dataclass
class Tally:
    """What was found for one kind of question."""

    held: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    stated: list[float] = field(default_factory=list)
    true: list[tuple[float, float]] = field(default_factory=list)

    def line(self, name: str) -> str:
        asked = sum(map(len, self.held.values()))
        share, error = held_share([self])
        ratio = ""
        if self.stated:
            true = np.sqrt(np.divide(*np.sum(self.true, axis=0)))
            ratio = f"{np.median(self.stated):.2f}, at most {max(self.stated):.2f}; true {true:.2f}"
        return f"  {name:28} {asked:4}  {100 * share:5.1f} ± {100 * error:.1f} %   {ratio}"


def held_share(tallies: Sequence[Tally]) -> tuple[float, float]:
    """Return the share of intervals that hold, and its error: a population is one observation."""
    held: dict[int, list[float]] = defaultdict(list)
    for tally in tallies:
        for repeat, values in tally.held.items():
            held[repeat] += values
    sums = np.array([[sum(values), len(values)] for values in held.values()])
    share = float(sums[:, 0].sum() / sums[:, 1].sum())
    away = sums[:, 0] - share * sums[:, 1]
    return share, float(np.sqrt(np.square(away).sum()) / sums[:, 1].sum())


def random_groups(attribute: Attribute, random: np.random.Generator) -> Grouping:
    """Two to four groups of random labels; of a binary attribute its labels."""
    labels = attribute.cardinality
    groups = int(random.integers(2, min(labels, 4) + 1))
    owner = random.permutation(np.arange(labels) % groups) if labels > 2 else np.arange(2)
    member = (owner[None] == np.arange(groups)[:, None]).astype(np.float64)
    return Grouping(tuple(map(str, range(groups))), member)


def truth(
    domain: Domain, codes: np.ndarray, attributes: Sequence[int], members: Sequence[Floats]
) -> Floats:
    """The proportions among the devices: shape of the groups."""
    histogram = domain.histogram(codes, attributes) / len(codes)
    return contract(histogram.reshape(domain.shape(attributes)), members)


def ask(
    model: Model,
    domain: Domain,
    codes: np.ndarray,
    random: np.random.Generator,
    found: dict[str, Tally],
    repeat: int,
) -> None:
    k = int(random.integers(1, 4))
    attributes = sorted(random.choice(len(domain), k, replace=False).tolist())
    names = [domain.names[i] for i in attributes]
    groupings = {i: random_groups(domain.attributes[i], random) for i in attributes}
    members = [groupings[i].member for i in attributes]
    answer = grouped(model, domain, names, groupings)
    proportions = truth(domain, codes, attributes, members)
    covered = "covered" if "covered" in answer.flags else "no view covers"
    if k > 1 and random.random() < 0.5:
        held = _conditional_held(answer, proportions)
        found[f"given, {covered}"].held[repeat] += [] if held is None else [held]
        return
    within = np.abs(answer.raw - proportions) <= 1.96 * answer.stderr + 1e-12
    tally = found[f"grouped, {covered}"]
    tally.held[repeat].append(float(within.mean()))
    if any(len(member) < member.shape[1] for member in members):
        cells, shape = model.marginal(tuple(attributes)), domain.shape(attributes)
        away = cells.table - domain.histogram(codes, attributes) / len(codes)
        stated, true = (
            float(contract(np.square(errors).reshape(shape), members).mean())
            for errors in (cells.stderr, away)
        )
        tally.stated.append(float(np.sqrt(np.square(answer.stderr).mean() / stated)))
        tally.true.append((float(np.square(answer.table - proportions).mean()), true))


def _conditional_held(answer: GroupedTable, proportions: Floats) -> float | None:
    """Return the share of cells that are held, of judged combinations; None without one."""
    shown = conditional(answer, answer.attributes[:1])
    blocks = proportions.reshape(len(proportions), -1)
    mass = blocks.sum(axis=1, keepdims=True)
    enough = np.broadcast_to(mass > LEAST_MASS, blocks.shape)
    expected = blocks / np.where(mass > 0.0, mass, 1.0)
    held = np.abs(shown.table.reshape(blocks.shape) - expected) <= 1.96 * shown.stderr.reshape(
        blocks.shape
    )
    return float(held[enough].mean()) if enough.any() else None


def study(
    dataset: str, method: str, users: int, epsilon: str, repeats: int, questions: int
) -> None:
    table = population(dataset)
    plan = local_plan(methods.get(method), Request(table.domain, epsilon, users, 2))
    found: dict[str, Tally] = defaultdict(Tally)
    seconds = []
    for repeat in range(repeats):
        random = np.random.default_rng([20261122, repeat])
        codes = draw(table.codes, users, random)
        tallies = collect(plan, codes, np.random.SeedSequence([repeat, 7]), exact=True)
        model = methods.get(method).fit(plan, tallies)
        began = time.perf_counter()
        for _ in range(questions // repeats):
            ask(model, table.domain, codes, random, found, repeat)
        seconds.append((time.perf_counter() - began) / (questions // repeats))
    covered = [tally for name, tally in found.items() if name.endswith(", covered")]
    some, every = (
        f"{100 * share:.1f} ± {100 * error:.1f} %"
        for share, error in map(held_share, (covered, list(found.values())))
    )
    print(
        f"{dataset}, {method}, epsilon {epsilon}, {users:,} devices, {repeats} populations: {some} "
        f"of covered intervals hold, {every} of all; {1000 * np.mean(seconds):.0f} ms a question"
    )
    print(f"  {'':28}    n      held       error over independent cells, stated: median")
    for name in sorted(found):
        print(found[name].line(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default="adult,taxi,kosarak")
    parser.add_argument("--methods", default="noise-aware,calm")
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--repeats", type=int, default=50, help="populations, each asked a part")
    parser.add_argument("--questions", type=int, default=500)
    args = parser.parse_args()
    for dataset in args.datasets.split(","):
        for method in args.methods.split(","):
            study(dataset, method, args.users, args.epsilon, args.repeats, args.questions)


if __name__ == "__main__":
    main()
