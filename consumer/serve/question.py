"""Questions as they come in requests, checked as far as that is cheap."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.changes import against_windows
from calmstream.consumer.read.ranges import Windows, read_windows
from calmstream.consumer.read.refusals import NotFinal
from calmstream.consumer.serve.problems import Problem, Refused, refusal
from calmstream.consumer.serve.results import Results
from calmstream.estimators.plan import Plan

_LAST = re.compile(r"last[:-]([0-9]{1,7})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a table.

    Attributes:
        attributes: names in the order of the axes.
        windows: whose table.
        minus: windows whose table is subtracted; None for none.
        group: groups of labels, see `analysis.grouping`.
        given: attributes within whose combinations proportions are asked for.
    """

    attributes: tuple[str, ...]
    windows: Windows
    minus: Windows | None
    group: str
    given: tuple[str, ...]


def read_names(plan: Plan, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the names in a parameter: separated by commas, or one in each of several parameters.

    A name that contains a comma is read where it is the whole parameter.
    """
    if len(texts) > 1 or (texts and texts[0] in plan.domain.names):
        return tuple(texts)
    names = tuple(part.strip() for part in texts[0].split(",")) if texts else ()
    if not all(names):
        raise Refused(Problem.MALFORMED, f"expected names separated by commas, got {texts[0]!r}")
    return names


def read_range(plan: Plan, results: Results, text: str) -> Windows:
    """Return the final windows that a text names."""
    if results.newest is None:
        raise Refused(Problem.NOT_FINAL, "no window is final yet")
    try:
        return read_windows(text, plan, results.newest)
    except NotFinal as error:
        raise refusal(error) from None
    except InvalidInput as error:
        raise Refused(Problem.MALFORMED, str(error)) from None


def read_against(plan: Plan, results: Results, text: str, windows: Windows) -> Windows:
    """Return the windows that others are tested against."""
    try:
        named = against_windows(text.strip(), windows)
    except NotFinal as error:
        raise refusal(error) from None
    found = read_range(plan, results, named) if isinstance(named, str) else named
    if found.overlaps(windows):
        detail = f"a comparison needs windows apart: {windows} and {found} share devices"
        raise Refused(Problem.MALFORMED, detail)
    return found


def read_series(plan: Plan, results: Results, text: str) -> Windows:
    """Return the windows of a series, which may also be ``last:N``: the newest N."""
    found = _LAST.fullmatch(text.strip())
    newest = results.newest
    if found is None or newest is None:
        windows = read_range(plan, results, text)
        return Windows(windows.first, windows.last)
    if int(found[1]) < 1:
        raise Refused(Problem.MALFORMED, f"windows {text!r}: no window is in this range")
    return Windows(max(newest - int(found[1]) + 1, 0), newest)


def check_table(
    plan: Plan, attributes: Sequence[str], given: Sequence[str], max_cells: int
) -> None:
    """Check names and size of a table."""
    if not attributes:
        raise Refused(Problem.MALFORMED, "attributes: name at least one attribute")
    try:
        positions = plan.domain.index(attributes)
    except InvalidInput as error:
        raise refusal(error) from None
    if given and (not set(given) < set(attributes) or len(set(given)) != len(given)):
        raise Refused(
            Problem.REFUSED, "given: name some, not all, of the attributes that are asked for"
        )
    cells = prod(plan.domain.shape(positions))
    if cells > max_cells:
        raise Refused(
            Problem.TOO_LARGE,
            f"a table of {cells:,} cells; at most {max_cells:,}: name fewer attributes",
        )
