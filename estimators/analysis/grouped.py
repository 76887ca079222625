"""Tables over groups of labels, with the full covariance of the groups.

Errors of neighbours are mostly opposed: that of a sum is mostly below that of independent cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.analysis.grouping import Grouping
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Domain
from calmstream.estimators.marginal import CLIPPED_STDERRS, MAX_COVARIANCE_CELLS, Marginal, is_noise
from calmstream.estimators.methods.base import GroupedAnswers, LinearAnswers, Model
from calmstream.estimators.numerics.contraction import contract, contract_both
from calmstream.estimators.numerics.simplex import project

APPROXIMATE = "approximate"
"""Flag: the covariances between cells are not known; errors take the cells as independent."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupedTable:
    """A table over groups of labels; arrays but the covariance have the shape of the labels."""

    attributes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    table: Floats  # a distribution
    raw: Floats
    covariance: Floats | None  # (cells, cells), of `raw`; None where too large
    stderr: Floats
    reports: int
    flags: tuple[str, ...]  # as `Marginal`, and `APPROXIMATE`
    independent: bool = False  # whether the covariances between cells are unknown


def grouped(
    model: Model, domain: Domain, names: Sequence[str], groupings: Mapping[int, Grouping]
) -> GroupedTable:
    """Return the table over these attributes, in the order named, with grouped labels."""
    ascending = domain.index(names)
    if not ascending:
        raise InvalidInput("name at least one attribute")
    if ascending[-1] >= domain.ordinary:
        name = domain.attributes[ascending[-1]].field
        raise InvalidInput(f"{domain.names[ascending[-1]]}: ask for words of {name} (--candidates)")
    if left := sorted(set(groupings) - set(ascending)):
        raise InvalidInput(
            f"group: {domain.names[left[0]]!r} is not among the attributes asked for"
        )
    own = [
        groupings.get(i) or Grouping(domain.attributes[i].labels, np.eye(domain.cardinalities[i]))
        for i in ascending
    ]
    # An attribute whose labels are all in one group is summed out: the smaller table is better.
    kept = [axis for axis, one in enumerate(own) if len(one.member) > 1] or [0]
    found = _answer(model, tuple(ascending[a] for a in kept), [own[a] for a in kept])
    order = [ascending.index(domain.index([name])[0]) for name in names]
    cells = np.arange(found.table.size).reshape([len(one.labels) for one in own]).transpose(order)
    place, covariance = cells.ravel(), found.covariance
    return replace(
        found,
        attributes=tuple(names),
        labels=tuple(own[axis].labels for axis in order),
        table=found.table[cells],
        raw=found.raw[cells],
        covariance=None if covariance is None else covariance[np.ix_(place, place)],
        stderr=found.stderr[cells],
    )


def _answer(model: Model, attributes: tuple[int, ...], own: Sequence[Grouping]) -> GroupedTable:
    """Return the cells of groups, row-major over ascending attributes: shape (cells,)."""
    marginal, members = model.marginal(attributes), [one.member for one in own]

    def sums(cells: Floats) -> Floats:
        return contract(cells.reshape([member.shape[1] for member in members]), members).ravel()

    table = raw = sums(marginal.table)
    cells, reports = marginal.table.size, marginal.reports
    summed, small = table.size < cells, table.size <= MAX_COVARIANCE_CELLS
    if reports and summed and not small:
        raise InvalidInput(f"a table of {table.size:,} groups; at most {MAX_COVARIANCE_CELLS:,}")
    known, covariance = small and reports > 0, None
    linear = "covered" in marginal.flags and cells <= MAX_COVARIANCE_CELLS
    projected = independent = False
    if known and isinstance(model, GroupedAnswers):
        table, covariance = model.grouped(attributes, members)
        raw = table
    elif known and linear and isinstance(model, LinearAnswers):
        raw = sums(model.unclipped(attributes))
        covariance = contract_both(model.covariance(attributes), members)
        table = project(raw) if summed else table
        projected = True
    if covariance is None:
        # Nothing else is known: the errors of the cells count as independent.
        independent = reports > 0
        variance = sums(np.square(marginal.stderr))
        covariance = np.diag(variance) if small else None
    else:
        variance = np.maximum(np.diag(covariance), 0.0)
    stderr = np.sqrt(variance)
    flags = _flags(marginal, table, raw, stderr, projected=projected)
    if independent and summed:
        flags = (*flags, APPROXIMATE)
    return GroupedTable((), (), table, raw, covariance, stderr, reports, flags, independent)


def _flags(
    marginal: Marginal, table: Floats, raw: Floats, stderr: Floats, *, projected: bool
) -> tuple[str, ...]:
    """Return the flags; a table not ``projected`` from ``raw`` is clipped if its marginal is."""
    flags = [flag for flag in marginal.flags if flag not in ("clipped", "noise")]
    if "covered" not in flags and "modelled" not in flags and marginal.reports:
        flags.append("modelled")
    clipped = "clipped" in marginal.flags and not projected
    if clipped or (np.abs(table - raw) > CLIPPED_STDERRS * stderr).any():
        flags.append("clipped")
    if marginal.reports == 0 or is_noise(table, stderr):
        flags.append("noise")
    return tuple(flags)


def conditional(joint: GroupedTable, given: Sequence[str]) -> GroupedTable:
    """Return the proportions within each combination of the given attributes, which come first.

    Standard errors are of first order (`ratios`). A combination without mass gets proportions 0 and
    standard errors 1.
    """
    names = joint.attributes
    if not given or not set(given) < set(names) or len(set(given)) != len(given):
        raise InvalidInput(f"given {','.join(given)}: expected some, not all, of {','.join(names)}")
    if joint.covariance is None:
        raise InvalidInput(
            f"given: a table of {joint.table.size:,} cells; at most {MAX_COVARIANCE_CELLS:,}: "
            "group labels"
        )
    order = [names.index(name) for name in given]
    order += [axis for axis in range(len(names)) if axis not in order]
    shape = [joint.table.shape[axis] for axis in order]
    blocks = int(np.prod(shape[: len(given)]))
    cells = np.arange(joint.table.size).reshape(joint.table.shape)
    place = cells.transpose(order).reshape(blocks, -1)
    covariance = joint.covariance[place[:, :, None], place[:, None, :]]
    ratio, error = ratios(joint.table.ravel()[place], covariance)
    table = ratio.reshape(shape)
    unknown = (APPROXIMATE,) if joint.independent else ()
    return replace(
        joint,
        attributes=tuple(names[axis] for axis in order),
        labels=tuple(joint.labels[axis] for axis in order),
        table=table,
        raw=table,
        covariance=None,
        stderr=error.reshape(shape),
        flags=tuple(dict.fromkeys((*joint.flags, "conditional", *unknown))),
    )


def first_groups(found: GroupedTable, names: Sequence[str]) -> GroupedTable:
    """Return the part of a table in the first group of some attributes, without its covariance."""
    for name in names:
        axis = found.attributes.index(name)
        found = replace(
            found,
            attributes=found.attributes[:axis] + found.attributes[axis + 1 :],
            labels=found.labels[:axis] + found.labels[axis + 1 :],
            table=np.take(found.table, 0, axis),
            raw=np.take(found.raw, 0, axis),
            covariance=None,
            stderr=np.take(found.stderr, 0, axis),
        )
    return found


def ratios(x: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """Return each block's cells x over its mass m, (blocks, cells), and their errors, at most 1.

    Of first order: the variance of r = x / m is ``(var(x) - 2 r cov(x, m) + r² var(m)) / m²``.
    """
    mass = x.sum(axis=1, keepdims=True)
    there = mass > 0.0
    safe = np.where(there, mass, 1.0)
    ratio = x / safe
    own = np.diagonal(covariance, axis1=1, axis2=2)
    with_mass = covariance.sum(axis=2)
    of_mass = with_mass.sum(axis=1, keepdims=True)
    variance = own - 2.0 * ratio * with_mass + np.square(ratio) * of_mass
    error = np.minimum(np.sqrt(np.maximum(variance, 0.0)) / safe, 1.0)
    return np.where(there, ratio, 0.0), np.where(there, error, 1.0)


def difference(after: GroupedTable, before: GroupedTable) -> GroupedTable:
    """Return one table minus another of different reports: of estimates before non-negativity."""
    if (after.attributes, after.labels) != (before.attributes, before.labels):
        raise InvalidInput("a difference needs two tables of the same attributes and labels")
    change = after.raw - before.raw
    covariance = None
    if after.covariance is not None and before.covariance is not None:
        covariance = after.covariance + before.covariance
    flags = [flag for flag in after.flags + before.flags if flag not in ("clipped", "noise")]
    return replace(
        after,
        table=change,
        raw=change,
        covariance=covariance,
        stderr=np.sqrt(np.square(after.stderr) + np.square(before.stderr)),
        reports=after.reports + before.reports,
        flags=(*dict.fromkeys(flags), "difference", "raw"),
        independent=after.independent or before.independent,
    )
