"""Designs of the methods that randomise whole records: one group, one view of all attributes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb, prod
from typing import TYPE_CHECKING, Any

from estimators.castell.schemes import independent_error
from estimators.errors import PlanError
from estimators.mechanisms.joint_tables import MAX_RECORD_CELLS, integer_row
from estimators.mechanisms.product_grr import ProductGRR
from estimators.mechanisms.registry import spec
from estimators.numerics.block_inverse import channels, expected_sse
from estimators.numerics.expected_error import mean_error
from estimators.numerics.subsets import elementary
from estimators.plan import Group
from estimators.view import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from estimators.domain import Attributes, Domain
    from estimators.plan.request import Request

MAX_LISTED = 20_000
"""Most tables that are listed one by one in a plan."""

_SAMPLED = 400
"""Most marginals of one size over which the expected error is averaged."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of randomised records whose counts are kept.

    Attributes:
        sets: ascending attribute positions.
        reason: for people.
    """

    sets: tuple[Attributes, ...]
    reason: str


def choose_tables(
    domain: Domain, k: int, parameters: Mapping[str, Any], *, least: int = 2
) -> Tables:
    """Choose the requested tables and all pairs, or else the smaller of joint and k-way tables.

    A k-way table contains all smaller ones, because every table counts every report. Sparse
    counters are not kept: a randomised record is new nearly every time while the domain is larger
    than the number of reports, so they would be the list of reports and grow with it.

    Args:
        domain: what a record is.
        k: size of the marginals to be answered.
        parameters: ``tables``, lists of attribute names or positions, if the plan asks for some.
        least: least size kept when the plan does not ask.

    Raises:
        PlanError: malformed ``tables``, or more of them than can be listed.
    """
    if "tables" in parameters:
        return _asked(domain, attribute_sets("tables", parameters["tables"], domain), least)
    d, size = len(domain), min(max(k, least), len(domain))
    whole, count = domain.size(), comb(d, size)
    parts = elementary(domain.cardinalities, size)[size]
    if whole <= parts:
        return Tables((tuple(range(d)),), f"counts the joint of all attributes, {whole:,} cells")
    if count > MAX_LISTED:
        raise PlanError(
            f"{count:,} tables of {size} attributes ({parts:,} cells): name the wanted ones in the "
            "parameter `tables`"
        )
    return Tables(
        tuple(combinations(range(d), size)),
        f"counts all {count} {size}-way tables, {parts:,} cells (the joint has {whole:,})",
    )


def _asked(domain: Domain, sets: tuple[Attributes, ...], least: int) -> Tables:
    """Return the requested tables, and those of ``least`` attributes that they do not contain."""
    held = {small for s in sets for small in combinations(s, min(least, len(s)))}
    missing = [
        small
        for small in combinations(range(len(domain)), min(least, len(domain)))
        if small not in held
    ]
    if len(missing) > MAX_LISTED:
        raise PlanError(f"{len(missing):,} tables of {least} attributes are not in `tables`")
    every = sets + tuple(missing)
    cells = sum(domain.size(s) for s in every)
    return Tables(
        every,
        f"counts {len(sets)} asked tables and {len(missing)} of {least} attributes that they do "
        f"not contain, {cells:,} cells",
    )


def attribute_sets(what: str, value: object, domain: Domain) -> tuple[Attributes, ...]:
    """Read lists of attribute names or positions as sorted tuples of positions.

    Raises:
        PlanError: anything else, or an unknown attribute.
    """
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
    """Return the view of a whole record as one number.

    Raises:
        PlanError: a record has 2^62 values or more.
    """
    if domain.size() >= MAX_RECORD_CELLS:
        raise PlanError(
            f"a record has {domain.size():.3g} values; methods that randomise whole records take "
            "fewer than 2^62: use fewer attributes or merge labels"
        )
    return View(tuple(range(len(domain))))


def product_group(
    request: Request, blocks: Sequence[Attributes], tables: Sequence[Attributes]
) -> tuple[Group, ProductGRR]:
    """Return the one group of a product plan and its mechanism."""
    view = record_view(request.domain)
    mechanism = ProductGRR(
        request.epsilon,
        request.domain.size(),
        request.domain.cardinalities,
        tuple(blocks),
        tuple(tables),
    )
    return Group(spec(mechanism), (view,), (1,)), mechanism


def expected_errors(mechanism: ProductGRR, request: Request, *, joint: bool) -> dict[int, float]:
    """Return the mean expected SSE of marginals of each size up to k, over an even sample of them.

    Exact for the joint inverse. For products of blocks only what noise adds on uniform data.
    """

    def error(attributes: Attributes) -> float:
        factors = channels(mechanism, attributes)
        if joint:
            return expected_sse(factors, request.users)
        moments, cells = [f.moment for f in factors], [f.cells for f in factors]
        return independent_error(moments, cells, request.users)

    domain, k = request.domain, request.k
    every = 1 << 62
    return mean_error(domain, k, error, sampled=_SAMPLED, max_size=k, max_cells=every)


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
