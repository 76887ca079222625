"""What a plan promises: how precise shares are, and what a wanted precision needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, floor, log10
from typing import Any

from rich.table import Table as Grid

from calmstream import result_options
from calmstream.common.errors import InvalidInput, PlanError
from calmstream.estimators.domain import Domain
from calmstream.estimators.marginal import Z95
from calmstream.estimators.plan import Plan
from calmstream.evaluation.precision import Precision, Width, least_number, needed
from calmstream.planning import over_time
from calmstream.planning.allowed_loss import MAX_REPORT
from calmstream.terminal import grid

ONE_POINT = 0.01
_UNITS = {86_400: ("day", "a day"), 3600: ("hour", "an hour"), 60: ("minute", "a minute")}
_GOAL = re.compile(
    r"(?:±|\+-)?\s*(\d+(?:\.\d+)?)\s*(?:points?|%)?\s+(?:in|of)\s+(.+?)(?:\s+given\s+(.+))?"
)
_MANY = 1e10  # reports: prior knowledge adds nothing, and the variance times them is that of one


@dataclass(frozen=True, slots=True)
class Goal:
    """A wanted half-width of the 95 % interval of shares in a table, or within groups of it."""

    half_width: float
    attributes: tuple[str, ...]
    given: tuple[str, ...] = ()

    def __str__(self) -> str:
        within = f" within {', '.join(self.given)}" if self.given else ""
        return f"± {100 * self.half_width:g} points in {', '.join(self.attributes)}{within}"

    @property
    def size(self) -> int:
        return len({*self.attributes, *self.given})

    def width(self, precision: Precision) -> Width:
        domain = precision.plan.domain
        target = domain.index(self.attributes)
        if not self.given:
            return lambda users: precision.half_width([target], users)
        given = domain.index(self.given)
        return lambda users: precision.within(target, given, users)[0]


def read_goal(text: str, domain: Domain) -> Goal:
    """Return the goal in ``±2 points in region,theme`` or ``2 points in crashed given region``."""
    match = _GOAL.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(f"--for {text!r}: expected '±2 points in A,B' or '... in A given B,C'")
    attributes = result_options.attributes(domain, [match[2]])
    given = result_options.attributes(domain, [match[3]]) if match[3] else ()
    domain.index([*attributes, *given])
    points = float(match[1])
    if not 0.0 < points <= 50.0 or (given and len(attributes) != 1):
        raise InvalidInput(f"--for {text!r}: expected up to 50 points, of one attribute if given")
    return Goal(points / 100, attributes, given)


def promises(precision: Precision, given: Sequence[str]) -> list[dict[str, Any]]:
    """Return the precision of shares of one attribute, of pairs, up to k, and within groups.

    Over a day and a week, the tables of windows are added; ``now`` filters them, as shares drift.
    """
    plan, found = precision.plan, []
    for what, width in _widths(precision, given):
        later = {name: width(n * plan.users) for name, n in over_time.in_spans(plan).items()}
        if plan.windows > 1:
            spread = (width(_MANY) / Z95) ** 2 * _MANY  # variance of a share by one report
            later["now"] = width(over_time.worth_now(plan, spread))
        found.append(
            {
                "of": what,
                "points": 100 * width(plan.users),
                "points_over_time": {name: 100 * one for name, one in later.items()},
                "reports_for_one_point": needed(width, ONE_POINT),
            }
        )
    return found


def _widths(precision: Precision, given: Sequence[str]) -> Iterator[tuple[str, Width]]:
    """Yield what shares are of, and their half-width by the number of reports."""
    domain, words = precision.plan.domain, {1: "one attribute", 2: "two attributes"}
    for size in range(1, precision.plan.k + 1):
        if tables := precision.tables(size):
            yield words.get(size, f"{size} attributes"), partial(precision.half_width, tables)
    if not given:
        return
    groups = domain.index(given)
    about = [i for i in range(domain.ordinary) if i not in groups]
    if not about:
        raise InvalidInput("--given: an attribute must be left whose shares are asked for")
    _, share = precision.within(about, groups)
    what = f"within {', '.join(given)}: the smallest, {100 * share:.2g} %"
    yield what, lambda users: precision.within(about, groups, users)[0]


def table(plan: Plan, found: Sequence[Mapping[str, Any]]) -> Grid:
    spans = (span(plan.window), *found[0]["points_over_time"])
    shown = grid("a share of", right=(*spans, "± 1 point needs", "or"))
    for one in found:
        widths = (one["points"], *one["points_over_time"].values())
        reports, needs = one["reports_for_one_point"], ("no number", "-")
        if reports is not None:
            windows = min(ceil(reports / plan.users), plan.windows)
            over = "over " if ceil(reports / plan.users) > plan.windows else ""
            needs = short(reports), f"{over}{span(windows * plan.window)}"
        shown.add_row(one["of"], *(f"± {points(width)}" for width in widths), *needs)
    return shown


def about(precision: Precision) -> str:
    how = (
        "a collection from the records was simulated"
        if precision.simulated
        else "a cautious formula, without records; calmstream evaluate measures them on a table"
    )
    return (
        "± is the half-width of the 95 % interval of a share, the root mean square over the cells "
        f"of tables, against the devices that report: {how}"
    )


def ways(goal: Goal, precision: Precision, redraft: Callable[[str], Plan]) -> list[str]:
    plan, width = precision.plan, goal.width(precision)
    if (reports := needed(width, goal.half_width)) is None:
        return [f"{goal} cannot be reached: no device answers on all of these attributes"]
    now = width(plan.users)
    reached = "is reached" if now <= goal.half_width else "needs one of"
    lines = [f"{goal} {reached} (± {points(100 * now)} as planned):"]
    lines.append(f"  {short(reports)} reports in a window, at epsilon {plan.epsilon}")
    if reports > plan.users:
        count = ceil(reports / plan.users)
        windows = f"{count:,} window{'s' * (count > 1)} ({span(count * plan.window)})"
        if count > plan.windows:
            windows = f"more than {plan.windows:,} windows"
        lines.append(f"  {windows} of {plan.users:,} reports")
    return [*lines, f"  {_epsilon(goal, precision, redraft)}"]


def _epsilon(goal: Goal, precision: Precision, redraft: Callable[[str], Plan]) -> str:
    users = precision.plan.users

    def enough(epsilon: float) -> bool:
        try:
            other = precision.of(redraft(f"{epsilon:.3g}"))
        except PlanError:
            return False
        return goal.width(other)(users) <= goal.half_width

    if (found := least_number(enough, 0.02, float(MAX_REPORT), within=1.05)) is None:
        return f"no epsilon up to {MAX_REPORT} is enough for {users:,} reports"
    return f"epsilon {found:.2g} with {users:,} reports in a window"


def span(seconds: int) -> str:
    """Return a duration in words: ``an hour``, ``6 hours``, ``10 s``."""
    for size, (unit, one) in _UNITS.items():
        if seconds == size:
            return one
        if seconds % size == 0 or seconds >= 10 * size:
            return f"{round(seconds / size):,} {unit}s"
    return f"{seconds} s"


def points(width: float) -> str:
    return "100" if width >= 99.5 else f"{width:.2g}"


def short(number: float) -> str:
    """Return a number, rounded up to two digits, such as ``2.1 million``."""
    size = 10.0 ** (floor(log10(max(number, 1.0))) - 1)
    whole = round(ceil(number / size - 1e-9) * size)
    for limit, word in ((10**9, "billion"), (10**6, "million")):
        if whole >= limit:
            return f"{whole / limit:g} {word}"
    return f"{whole:,}"
