"""Check that a change of the code does not change any answer of any method, not even by one bit.

Before the change, ``python -m benchmarks.accuracy.recorded record`` writes digests of the answers
of every method and mechanism to ``benchmarks/results/recorded.json``. After the change, ``check``
computes the same answers again and lists the cases that differ. The last bits of an answer depend
on the processor and on the build of numpy, so use one machine for both. All cases take 10 to 24
minutes on one core. ``--only NAME`` checks or records one method or mechanism; the digests of the
others stay.

A *case* is one method or mechanism with one input; it has a name and a digest of its answers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from calmstream.common.errors import InvalidInput, PlanError
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.estimators import methods
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.mechanisms.registry import names, standard
from calmstream.estimators.methods.base import Follows, Method, Model, Piloted, ReadsReports
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.wire.snapshot import Kind, encode
from calmstream.estimators.wire.state import WindowCount
from calmstream.evaluation.population import collect
from calmstream.evaluation.rounds import local_plan, two_rounds

RESULTS = Path(__file__).parents[1] / "results" / "recorded.json"

SHAPES: dict[str, tuple[int, ...]] = {
    "1 bit": (2,),
    "2 bits": (2, 2),
    "3 bits": (2,) * 3,
    "8 bits": (2,) * 8,
    "9 bits": (2,) * 9,
    "10 bits": (2,) * 10,
    "16 bits": (2,) * 16,
    "17 bits": (2,) * 17,
    "32 bits": (2,) * 32,
    "130 bits": (2,) * 130,
    "1 label": (5,),
    "3 categories": (2, 3, 4),
    "8 categories": (2, 9, 3, 7, 4, 2, 5, 3),
    "ternary": (3,) * 9,
    "one large": (300, 2, 3),
    "20 categories": (4,) * 20,
}
"""Numbers of values of the attributes. They are below and above the sizes at which a method changes
its model."""

TARGETS_OF_ONE_SIZE = 12
"""Approximate number of attribute sets of one size whose answers are in a digest."""

MakeCases = Callable[[], Iterator[tuple[str, str]]]
"""A function that yields the name and the digest of cases."""

MECHANISM_CELLS = (2, 3, 8, 64)  # numbers of values for which mechanisms are checked


def domain_of(cards: tuple[int, ...]) -> Domain:
    """Return a domain whose attributes have these numbers of values."""
    return Domain(
        tuple(Attribute(f"a{i}", tuple(map(str, range(card)))) for i, card in enumerate(cards))
    )


def records(cards: tuple[int, ...], n: int, seed: int) -> np.ndarray:
    """Draw dependent codes, shape (n, d): a hidden number per record shifts all its attributes."""
    generator = np.random.default_rng(seed)
    hidden = generator.random((n, 1))
    noise = generator.random((n, len(cards)))
    slopes = generator.uniform(0.2, 0.9, len(cards))
    place = (slopes * hidden + (1 - slopes) * noise) ** generator.uniform(0.6, 1.8, len(cards))
    return np.minimum(place * cards, np.array(cards) - 1).astype(np.uint16)


def digest(*arrays: Any) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of arrays and byte strings."""
    value = hashlib.sha256()
    for array in arrays:
        value.update(array if isinstance(array, bytes) else np.ascontiguousarray(array).tobytes())
    return value.hexdigest()[:16]


def answers(model: Model, cards: tuple[int, ...]) -> str:
    """Return a digest of a model's tables, standard errors and flags.

    The tables are those of single attributes and of sets of two to four attributes.
    """
    parts: list[Any] = []
    for order in range(1, min(4, len(cards)) + 1):
        every = list(combinations(range(min(len(cards), 9)), order))
        for attributes in every[:: max(1, len(every) // TARGETS_OF_ONE_SIZE)]:
            try:
                marginal = model.marginal(attributes)
            except InvalidInput as error:
                parts.append(str(error).encode())
                continue
            parts += [marginal.table, marginal.stderr, " ".join(marginal.flags).encode()]
    return digest(*parts)


def can_answer(model: Model, attributes: tuple[int, ...]) -> bool:
    """Return whether the model has a table over the attributes."""
    try:
        model.marginal(attributes)
    except InvalidInput:
        return False
    return True


def published(plan: Plan, tallies: list[Any]) -> str:
    """Return a digest of the final snapshot set that is published for these counts.

    docs/reading-a-snapshot.md describes the set.
    """
    pairs = tuple(combinations(range(min(len(plan.domain), 6)), 2))
    model = methods.get(plan.method).fit(plan, tallies)
    wanted = [attributes for attributes in ((0,), *pairs) if can_answer(model, attributes)]
    # The analysis needs the tables of all pairs.
    all_pairs = bool(pairs) and len(wanted) == 1 + len(pairs)
    plan = replace(plan, marginals=tuple(wanted), analysis=all_pairs)
    counts = tuple(WindowCount(tally) for tally in tallies)
    made = build_set(
        plan, MergedWindow(0, Kind.FINAL, (1,) * (len(plan.groups) * plan.partitions), counts)
    )
    return digest(encode(replace(made.manifest, software="")), *(v for _, v in made.tables()))


def of_method(name: str, shape: str, k: int, epsilon: str, n: int) -> Iterator[tuple[str, str]]:
    """Yield the name and the digest of each case of one method over one domain."""
    method, cards = methods.get(name), SHAPES[shape]
    case = f"{name}, {shape}, k {k}, epsilon {epsilon}, n {n}"
    request = Request(domain_of(cards), epsilon, n, k)
    codes, noise = records(cards, n, 7), np.random.SeedSequence(11)
    try:
        if isinstance(method, Piloted):  # its parameters come from a pilot, an earlier plan
            pilot = local_plan(methods.get(method.pilot), replace(request, users=n // 10))
            yield case, answers(two_rounds(method, pilot, codes, noise, exact=False)(), cards)
            return
        plan = local_plan(method, request)
        if isinstance(method, ReadsReports):  # it estimates from reports instead of counts
            values = plan.groups[0].views[0].inputs(codes, plan.domain)
            reports = plan.mechanisms[0].perturb(values, SeededRandomness(noise))
            yield case, answers(method.fit_reports(plan, reports), cards)
            return
        tallies = collect(plan, codes, noise, exact=False)
        yield case, answers(method.fit(plan, tallies), cards)
        if isinstance(method, Follows):  # it can continue an earlier plan
            yield f"{case}, piloted", piloted(method, request, codes, noise, cards)
    except PlanError as error:
        yield case, digest(str(error).encode())
        return
    if not method.baseline:  # nothing is published for a baseline
        yield f"{case}, published", published(plan, tallies)


def piloted(method: Method, request: Request, codes: Any, noise: Any, cards: Any) -> str:
    """Return a digest of the answers after a pilot of the same method with a third of the devices.

    The counts are drawn from their distribution (``exact``), which takes less time than to simulate
    every report.
    """
    pilot = local_plan(method, replace(request, users=request.users // 3))
    return answers(two_rounds(method, pilot, codes, noise, exact=True)(), cards)


def of_mechanism(name: str, cells: int, epsilon: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the digest of the case of one mechanism."""
    try:
        mechanism = standard(name, epsilon, cells)
    except (PlanError, InvalidInput, TypeError, KeyError) as error:
        yield f"{name}, {cells} cells, epsilon {epsilon}", digest(type(error).__name__.encode())
        return
    values = np.random.default_rng(3).integers(cells, size=5000)
    reports = mechanism.perturb(values, SeededRandomness(np.random.SeedSequence(5)))
    counts = mechanism.tally(reports, None, 1)
    estimate = mechanism.estimate(counts[0], len(values))
    columns = [np.asarray(reports[key]) for key in sorted(reports)]
    spread = mechanism.variance(len(values), estimate)
    value = digest(*columns, counts, estimate, np.asarray(spread))
    yield f"{name}, {cells} cells, epsilon {epsilon}", value


def cases() -> Iterator[tuple[str, MakeCases]]:
    """Yield the name of a method or mechanism and a function that computes some of its cases."""
    for name in names():
        for cells in MECHANISM_CELLS:
            for epsilon in ("0.5", "2"):
                yield name, partial(of_mechanism, name, cells, epsilon)
    for name in methods.names():
        for shape, cards in SHAPES.items():
            for k in (1, 2, 3):
                if k > len(cards) or (k != 2 and name != "noise-aware" and len(cards) > 16):
                    continue
                for epsilon, n in (("0.3", 4000), ("1", 40_000)):
                    yield name, partial(of_method, name, shape, k, epsilon, n)


def compute(only: str) -> dict[str, str]:
    """Return the digests by name of the case; ``only``: a method or mechanism, "" for all."""
    digests: dict[str, str] = {}
    started = time.monotonic()
    for name, make in cases():
        if only in ("", name):
            digests.update(make())
    print(f"{len(digests)} cases in {time.monotonic() - started:.0f} s", file=sys.stderr)
    return digests


def main() -> int:
    """Record the digests or check them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("record", "check"))
    parser.add_argument("--only", default="", help="one method or mechanism")
    args = parser.parse_args()
    digests = compute(args.only)
    recorded = json.loads(RESULTS.read_text())
    if args.what == "record":
        kept = recorded if args.only else {}
        RESULTS.write_text(json.dumps(kept | digests, indent=0, sort_keys=True) + "\n")
        return 0
    differ = [case for case, value in digests.items() if recorded.get(case) != value]
    missing = set() if args.only else recorded.keys() - digests.keys()
    print("\n".join([*differ, *(f"missing: {case}" for case in sorted(missing))]))
    return int(bool(differ or missing))


if __name__ == "__main__":
    sys.exit(main())
