"""Methods that randomise whole records: one group, one view, blocks, and the tables counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, prod
from typing import Any, ClassVar, TypeVar

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.mechanisms.registry import spec
from calmstream.estimators.methods.base import Design
from calmstream.estimators.methods.packing import only_parameters
from calmstream.estimators.numerics.subsets import elementary
from calmstream.estimators.papers.castell.joint_tables import MAX_RECORD_CELLS, integer_row
from calmstream.estimators.papers.castell.model import ProductModel
from calmstream.estimators.papers.castell.product_grr import ProductGRR
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View

MAX_LISTED = 20_000
PUBLISHED = 2  # attributes of the tables that are published by default
M = TypeVar("M", bound=Mechanism)


@dataclass(frozen=True, slots=True)
class KeptTables:
    """The tables of randomised records whose counts are kept, as ascending positions."""

    sets: tuple[Attributes, ...]
    reason: str


def choose_tables(domain: Domain, k: int, parameters: Mapping[str, Any]) -> KeptTables:
    """Choose the tables whose counts are kept: those requested, and all pairs.

    Without a request these are the joint table or all k-way tables, whichever have fewer cells.
    Sparse counters would be of no use: as long as the domain is larger than the number of reports,
    nearly every randomised record is new, and they would grow like the list of reports.
    """
    if "tables" in parameters:
        return _requested(domain, attribute_sets("tables", parameters["tables"], domain))
    d, size = len(domain), min(max(k, PUBLISHED), len(domain))
    whole, count = domain.size(), comb(d, size)
    parts = elementary(domain.cardinalities, size)[size]
    if whole <= parts:
        return KeptTables(
            (tuple(range(d)),), f"counts the joint of all attributes, {whole:,} cells"
        )
    if count > MAX_LISTED:
        raise PlanError(
            f"a plan lists at most {MAX_LISTED:,} tables; there are {count:,} of {size} attributes "
            f"({parts:,} cells): name the ones to keep in the parameter `tables`"
        )
    return KeptTables(
        tuple(combinations(range(d), size)),
        f"counts all {count} {size}-way tables, {parts:,} cells (the joint has {whole:,})",
    )


def _requested(domain: Domain, sets: tuple[Attributes, ...]) -> KeptTables:
    contained = {small for s in sets for small in combinations(s, min(PUBLISHED, len(s)))}
    missing = [
        small
        for small in combinations(range(len(domain)), min(PUBLISHED, len(domain)))
        if small not in contained
    ]
    if len(missing) > MAX_LISTED:
        raise PlanError(
            f"{len(missing):,} tables of 2 attributes are not contained in `tables`; at most "
            f"{MAX_LISTED:,} can be added: use fewer attributes"
        )
    kept = sets + tuple(missing)
    cells = sum(domain.size(s) for s in kept)
    return KeptTables(
        kept,
        f"counts {len(sets)} requested tables and {len(missing)} of 2 attributes that they "
        f"do not contain, {cells:,} cells",
    )


def attribute_sets(what: str, value: object, domain: Domain) -> tuple[Attributes, ...]:
    """Read lists of attribute names or positions as sorted tuples of positions."""
    if not isinstance(value, list | tuple) or not all(
        isinstance(row, list | tuple) and row for row in value
    ):
        raise PlanError(f"{what}: expected a list of lists of attributes, none of them empty")
    return tuple(
        domain.index(row)
        if all(isinstance(x, str) for x in row)
        else tuple(sorted(integer_row(what, row)))
        for row in value
    )


def record_view(domain: Domain) -> View:
    if domain.size() >= MAX_RECORD_CELLS:
        raise PlanError(
            f"a record has {domain.size():.3g} values; methods that randomise whole records take "
            "fewer than 2^62: use fewer attributes or merge labels"
        )
    return View(tuple(range(len(domain))))


def product_group(
    request: Request, blocks: Sequence[Attributes], tables: Sequence[Attributes]
) -> tuple[Group, ProductGRR]:
    view = record_view(request.domain)
    mechanism = ProductGRR(
        request.epsilon,
        request.domain.size(),
        request.domain.cardinalities,
        tuple(blocks),
        tuple(tables),
    )
    return Group(spec(mechanism), (view,), (1,)), mechanism


def loss_reason(mechanism: ProductGRR) -> str:
    """Return how epsilon is split, as one line of text."""
    shares = sorted({len(block) for block in mechanism.blocks})
    d = len(mechanism.axes)
    each = ", ".join(
        f"{c}/{d} of epsilon for a block of {c}" if len(shares) > 1 else f"{c}/{d} each"
        for c in shares
    )
    blocks = len(mechanism.blocks)
    return (
        f"{blocks} independent randomised response{'s' if blocks > 1 else ''} over "
        f"{prod(mechanism.axes):,} values of a record, {each}; epsilon is their total"
    )


class BlockMethod:
    """Blocks, here every attribute, the tables counted (`choose_tables`), and one of `schemes`."""

    name: ClassVar[str]
    baseline: ClassVar[bool] = False
    parameters: ClassVar[tuple[str, ...]] = ("tables",)
    scheme: ClassVar[str]
    recovery: ClassVar[str]
    """How tables are recovered, for people who read a plan."""

    def blocks(self, request: Request) -> tuple[Attributes, ...]:
        return single(request)

    def tables(self, request: Request) -> KeptTables:
        return choose_tables(request.domain, request.k, request.parameters)

    def design(self, request: Request) -> Design:
        only_parameters(self.name, request.parameters, *self.parameters)
        blocks, tables = self.blocks(request), self.tables(request)
        group, mechanism = product_group(request, blocks, tables.sets)
        return Design((group,), {}, (loss_reason(mechanism), tables.reason, self.recovery))

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> ProductModel:
        return self.model(plan, tallies, self.scheme)

    @staticmethod
    def model(plan: Plan, tallies: Sequence[Tally], scheme: str) -> ProductModel:
        return ProductModel(plan.domain, only_mechanism(plan, ProductGRR), tallies[0], scheme)


def single(request: Request) -> tuple[Attributes, ...]:
    return tuple((i,) for i in range(len(request.domain)))


def only_mechanism(plan: Plan, kind: type[M]) -> M:
    """Return the mechanism of a plan whose method is defined for one kind of mechanism only."""
    mechanism = plan.mechanisms[0]
    if not isinstance(mechanism, kind) or len(plan.groups) != 1:
        raise PlanError(f"method {plan.method} needs exactly one group, with mechanism {kind.name}")
    return mechanism
