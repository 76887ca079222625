"""Methods that randomise whole records: one group, one view, blocks, and the tables counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb, prod
from typing import Any, ClassVar, TypeVar

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.methods.base import Design, Request
from calmstream.estimators.methods.packing import only_parameters
from calmstream.estimators.numerics.subsets import elementary
from calmstream.estimators.papers.castell.joint_tables import MAX_RECORD_CELLS, integer_row
from calmstream.estimators.papers.castell.model import ProductModel
from calmstream.estimators.papers.castell.product_grr import ProductGRR
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View

MAX_LISTED = 20_000
PUBLISHED = 2  # attributes of the tables that are published by default
M = TypeVar("M", bound=Mechanism)


KeptTables = tuple[tuple[Attributes, ...], str]
"""The tables of randomised records whose counts are kept, and the reason in words."""


def choose_tables(domain: Domain, k: int, parameters: Mapping[str, Any]) -> KeptTables:
    """Choose the tables whose counts are kept: those requested, and all pairs.

    Without a request these are the joint table or all k-way tables, whichever have fewer cells.
    Sparse counters would be of no use: nearly every randomised record of a large domain is new.
    """
    if "tables" in parameters:
        return _requested(domain, attribute_sets("tables", parameters["tables"], domain))
    d, size = len(domain), min(max(k, PUBLISHED), len(domain))
    whole, count = domain.size(), comb(d, size)
    parts = elementary(domain.cardinalities, size)[size]
    if whole <= parts:
        return (tuple(range(d)),), f"counts the joint of all attributes, {whole:,} cells"
    if count > MAX_LISTED:
        raise PlanError(
            f"a plan lists at most {MAX_LISTED:,} tables; there are {count:,} of {size} attributes "
            f"({parts:,} cells): name the ones to keep in the parameter `tables`"
        )
    reason = f"counts all {count} {size}-way tables, {parts:,} cells (the joint has {whole:,})"
    return tuple(combinations(range(d), size)), reason


def _requested(domain: Domain, sets: tuple[Attributes, ...]) -> KeptTables:
    contained = {small for s in sets for small in combinations(s, min(PUBLISHED, len(s)))}
    pairs = combinations(range(len(domain)), min(PUBLISHED, len(domain)))
    missing = [small for small in pairs if small not in contained]
    if len(missing) > MAX_LISTED:
        raise PlanError(
            f"{len(missing):,} tables of 2 attributes are not contained in `tables`; at most "
            f"{MAX_LISTED:,} can be added: use fewer attributes"
        )
    kept = sets + tuple(missing)
    cells = sum(domain.size(s) for s in kept)
    return kept, (
        f"counts {len(sets)} requested tables and {len(missing)} of 2 attributes that they "
        f"do not contain, {cells:,} cells"
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
    view, domain = record_view(request.domain), request.domain
    mechanism = ProductGRR(
        request.epsilon, domain.size(), domain.cardinalities, tuple(blocks), tuple(tables)
    )
    return Group(mechanism, (view,), (1,)), mechanism


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
    raw: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("tables",)
    scheme: ClassVar[str]
    recovery: ClassVar[str]
    """How tables are recovered, for people who read a plan."""

    def blocks(self, request: Request) -> tuple[Attributes, ...]:
        return tuple((i,) for i in range(len(request.domain)))

    def tables(self, request: Request) -> KeptTables:
        return choose_tables(request.domain, request.k, request.parameters)

    def design(self, request: Request) -> Design:
        only_parameters(self.name, request.parameters, *self.parameters)
        blocks, (tables, kept) = self.blocks(request), self.tables(request)
        group, mechanism = product_group(request, blocks, tables)
        return Design((group,), {}, (loss_reason(mechanism), kept, self.recovery))

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> ProductModel:
        mechanism = only_mechanism(plan, ProductGRR)
        return ProductModel(plan.domain, mechanism, tallies[0], self.scheme_of(plan))

    def scheme_of(self, plan: Plan) -> str:  # noqa: ARG002 - of a plan's parameters, overridden
        return self.scheme


def only_mechanism(plan: Plan, kind: type[M]) -> M:
    """Return the mechanism of a plan whose method is defined for one kind of mechanism only."""
    mechanism = plan.mechanisms[0]
    if not isinstance(mechanism, kind) or len(plan.groups) != 1:
        raise PlanError(f"method {plan.method} needs exactly one group, with mechanism {kind.name}")
    return mechanism
