"""Simulated collection without a broker: draws devices, assigns them to views, counts reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators import methods, planning
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes, Codes, Domain
from calmstream.estimators.methods import hashed_views
from calmstream.estimators.methods.base import Design, Follows, Method, Model, Request
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.tally import Tally
from calmstream.tables.records import RecordTable

MAX_DISTINCT_CELLS = 1 << 12  # fewer possible records are counted, which is faster than devices
MAX_BYTES = 8 << 30  # of the devices of one repeat; more is an error, before anything is drawn
_INDEX_BYTES = 48  # of a device beside record and report: its row, its view, their order


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """What every evaluation of a table states; the seed decides all that is drawn."""

    table: RecordTable
    methods: Sequence[str]
    epsilons: Sequence[str]
    k: int
    users: int
    targets: int
    seed: int
    repeats: int = 1
    progress: Callable[[], object] = lambda: None  # called after each repeat or window

    def __post_init__(self) -> None:
        if min(self.targets, self.repeats) < 1 or self.seed < 0:
            raise InvalidInput("targets and repeats must be at least 1, the seed not negative")

    def requests(self) -> Iterator[tuple[Method, Request]]:
        for method in map(methods.get, self.methods):
            for epsilon in self.epsilons:
                yield method, Request(self.table.domain, epsilon, self.users, self.k)

    def random(self, *label: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, *label))

    def devices(self, repeat: int) -> tuple[Codes, np.random.SeedSequence]:
        """Return the drawn records of a repeat, the same for all methods, and a seed for noise."""
        codes = draw(self.table.codes, self.users, self.random(1, repeat))
        return codes, np.random.SeedSequence((self.seed, 2, repeat))


def check_memory(plan: Plan, users: int, *, exact: bool) -> None:
    """Check that the devices of one repeat fit into memory, approximately."""
    works = [mechanism.report_work for mechanism in plan.mechanisms]
    report = 0 if exact else max(work.bytes + work.random_bytes for work in works)
    each = 2 * len(plan.domain) + _INDEX_BYTES + report
    if users * each > MAX_BYTES:
        instead = "" if exact else ", or --tallies law"
        raise InvalidInput(
            f"--users: {users:,} devices take about {users * each >> 30:,} GiB of memory; with "
            f"this plan an evaluation has at most {MAX_BYTES // each:,}{instead}"
        )


def draw(codes: Codes, users: int, generator: np.random.Generator) -> Codes:
    """Draw the records of devices: each row once if there are as many, else with replacement."""
    return codes if users == len(codes) else codes[generator.integers(len(codes), size=users)]


def true_tables(domain: Domain, codes: Codes, targets: Sequence[Attributes]) -> list[Floats]:
    return [domain.histogram(codes, target) / len(codes) for target in targets]


def collect(plan: Plan, codes: Codes, seed: np.random.SeedSequence, *, exact: bool) -> list[Tally]:
    """Return one tally per group, from devices that are assigned to views by their shares.

    Every input is perturbed, or with ``exact`` the counters are drawn from their distribution.
    """
    assigning, perturbing = seed.spawn(2)
    if exact and plan.domain.size() <= MAX_DISTINCT_CELLS:
        return _collect_cells(plan, codes, assigning, perturbing)
    word = np.random.default_rng(assigning).integers(plan.total_share, size=len(codes))
    view = np.searchsorted(plan.cumulative_shares, word, side="right")
    order = np.argsort(view, kind="stable")
    bounds = np.searchsorted(view[order], np.arange(plan.first_view[-1] + 1))
    members = [order[bounds[v] : bounds[v + 1]] for v in range(plan.first_view[-1])]
    generator, randomness = np.random.default_rng(perturbing), SeededRandomness(perturbing)
    tallies = []
    # `first_view` has one entry more than there are groups.
    for group, mechanism, first in zip(plan.groups, plan.mechanisms, plan.first_view, strict=False):
        devices = members[first : first + len(group.views)]
        inputs = [
            v.inputs(codes[rows], plan.domain) for v, rows in zip(group.views, devices, strict=True)
        ]
        n = np.array([len(values) for values in inputs], np.int64)
        if exact:
            counts = np.stack([mechanism.draw_tally_of(values, generator) for values in inputs])
        else:
            reports = mechanism.perturb(np.concatenate(inputs), randomness)
            places = np.repeat(np.arange(len(n)), n) if len(n) > 1 else None
            counts = mechanism.tally(reports, places, len(n))
        tallies.append(Tally(n, counts))
    return tallies


def _collect_cells(
    plan: Plan, codes: Codes, assigning: np.random.SeedSequence, perturbing: np.random.SeedSequence
) -> list[Tally]:
    """Collect as `collect` with ``exact``, but by different records instead of by devices."""
    counts = plan.domain.histogram(codes, tuple(range(len(plan.domain))))
    cells = np.flatnonzero(counts)
    records = np.stack(np.unravel_index(cells, plan.domain.cardinalities), axis=1)
    records = records.astype(np.uint16)
    shares = np.diff(plan.cumulative_shares, prepend=0) / plan.total_share
    # Number of devices by record and view: shape (different records, views).
    devices = np.random.default_rng(assigning).multinomial(counts[cells], shares)
    generator = np.random.default_rng(perturbing)
    tallies = []
    for group, mechanism, first in zip(plan.groups, plan.mechanisms, plan.first_view, strict=False):
        rows = []
        for offset, view in enumerate(group.views):
            histogram = np.zeros(mechanism.cells, np.int64)
            np.add.at(histogram, view.inputs(records, plan.domain), devices[:, first + offset])
            rows.append(mechanism.draw_tally(histogram, generator))
        n = devices[:, first : first + len(group.views)].sum(axis=0)
        tallies.append(Tally(n, np.stack(rows)))
    return tallies


LINEAGE = "0" * 32  # the lineage of plans that are used for evaluation


def local_plan(method: Method, request: Request, design: Design | None = None) -> Plan:
    planning.check(request)
    design = hashed_views.design(method, request) if design is None else design
    return Plan(
        name="evaluation",
        purpose="evaluation on a local table",
        owner="evaluate",
        lineage=LINEAGE,
        domain=request.domain,
        epsilon=request.epsilon,
        k=request.k,
        method=method.name,
        parameters=design.parameters,
        groups=design.groups,
        start=0,
        expires=60,
        window=60,
        grace=0,
        skew=0,
        users=request.users,
        marginals=((0,),),
    )


def two_rounds(
    method: Follows, pilot: Plan, codes: Codes, noise: np.random.SeedSequence, *, exact: bool
) -> Callable[[], Model]:
    """Collect from a pilot's devices, then from the others by a plan that follows from it."""
    mixed = codes[np.random.default_rng(noise.spawn(1)[0]).permutation(len(codes))]
    first, second = noise.spawn(2)
    pilot_codes, others = mixed[: pilot.users], mixed[pilot.users :]
    pilot_tallies = collect(pilot, pilot_codes, first, exact=exact)
    parameters = method.follow(pilot, pilot_tallies)
    request = Request(pilot.domain, pilot.epsilon, len(others), pilot.k, parameters)
    plan = local_plan(method, request)
    tallies = collect(plan, others, second, exact=exact)
    return partial(methods.fit, plan, tallies, total=True)
