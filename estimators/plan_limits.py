"""What a plan states from version 2 on so that every reader judges alike: limits, and numbers.

A limit that admission applies must be the same for every worker and in every replay, so it stands
in the plan. Plans of version 1 have no limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from estimators.errors import PlanError

if TYPE_CHECKING:
    from estimators.plan import Plan

MAX_INTEGER = (1 << 53) - 1
"""Largest magnitude of an integer in a plan: every JSON reader holds it exactly."""

MOST_BATCH_REPORTS = 1 << 16
"""Most reports that the wire format allows in a batch."""

LEAST_BATCH_REPORTS = 1024
LEAST_BATCHES = 1 << 14
MOST_BATCHES = 1 << 32

BATCH_SHARE = 100
"""A batch may hold this part of the reports that its group and window expect."""

BATCHES_HEADROOM = 8
"""A partition remembers this many times the reports that its group, window and partition expect."""


MAX_WINDOWS = 1 << 32
MAX_TIME = 1 << 40
"""Latest second since the epoch in a plan."""

MAX_MODULUS = 1 << 32
MAX_NAME = 128
_FEW = 8
"""Entries of a list below which a look at all types at once does not pay."""

ON_SUSPICION = ("flag", "withhold")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sender, or a flood of them, can put into one window.

    Attributes:
        batch_reports: most reports of one batch.
        batches: most batches that are accepted per partition and window; each costs the memory of
            its id while the window is open.
    """

    batch_reports: int
    batches: int

    def __post_init__(self) -> None:
        for name, most in (("batch_reports", MOST_BATCH_REPORTS), ("batches", MOST_BATCHES)):
            value = getattr(self, name)
            if not 1 <= value <= most:
                raise PlanError(f"limits.{name}: expected 1 to {most}, got {value}")

    def to_json(self) -> dict[str, int]:
        """As it stands in a plan document."""
        return {"batch_reports": self.batch_reports, "batches": self.batches}


def standard_limits(plan: Plan) -> Limits:
    """The limits of a plan that states none: generous to honest senders of any batch size.

    A batch of the largest group may hold a hundredth of the group's reports in a window. Batches of
    one report each fit eight times over.
    """
    largest = -(-plan.users * max(group.share for group in plan.groups) // plan.total_share)
    reports = max(LEAST_BATCH_REPORTS, min(largest // BATCH_SHARE, MOST_BATCH_REPORTS))
    batches = BATCHES_HEADROOM * -(-largest // plan.partitions)
    return Limits(reports, max(LEAST_BATCHES, min(batches, MOST_BATCHES)))


def check_bounds(plan: Plan) -> None:
    """What a plan of version 2 bounds so that readers in every language agree about it.

    Raises:
        PlanError: a field beyond its bound, with its path.
    """
    if plan.on_suspicion not in ON_SUSPICION:
        raise PlanError(f"on_suspicion: expected flag or withhold, got {plan.on_suspicion!r}")
    if len(plan.lineage_name) > MAX_NAME:
        raise PlanError(f"lineage_name: expected at most {MAX_NAME} characters")
    if plan.expires > MAX_TIME or plan.windows > MAX_WINDOWS:
        raise PlanError(f"expires: at most {MAX_TIME}, and at most {MAX_WINDOWS} windows")
    if plan.users > MAX_INTEGER:
        raise PlanError(f"users: expected at most {MAX_INTEGER}")
    for g, group in enumerate(plan.groups):
        where = f"groups[{g}].mechanism"
        if exact_numbers(group.mechanism, where) != dict(group.mechanism):
            raise PlanError(f"{where}: a mechanism has no fractions")
        if max(view.modulus for view in group.views) > MAX_MODULUS:
            raise PlanError(f"groups[{g}]: a modulus is at most {MAX_MODULUS}")


def exact_numbers(value: Any, where: str) -> Any:
    """Method parameters or a mechanism's fields with numbers that all languages write alike.

    Fractions become decimal strings, because JSON libraries write them differently (1e16 or
    10000000000000000). Integers keep to the range that every reader holds exactly.

    Args:
        value: JSON-ready.
        where: path, for messages.

    Raises:
        PlanError: an integer beyond 2^53 - 1, or a number that is not finite.
    """
    try:
        return _exact(value)
    except _InexactError as error:
        raise PlanError(f"{where}{''.join(reversed(error.steps))}: {error.what}") from None


class _InexactError(Exception):
    """A number that languages write differently, and where: the last step of its path first."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.steps: list[str] = []


def _exact(value: Any) -> Any:
    """As :func:`exact_numbers`; lists of integers or of strings are looked at as a whole."""
    if isinstance(value, list | tuple):
        return _exact_list(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise _InexactError("expected a finite number")
        return float.__repr__(value)
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise _InexactError(f"integers lie between -{MAX_INTEGER} and {MAX_INTEGER}")
        return value
    return _exact_object(value) if isinstance(value, Mapping) else value


def _exact_list(values: Sequence[Any]) -> list[Any]:
    if len(values) > _FEW:
        kinds = set(map(type, values))
        integers = kinds == {int} and min(values) >= -MAX_INTEGER and max(values) <= MAX_INTEGER
        if integers or kinds <= {str}:
            return list(values)
    exact: list[Any] = []
    try:
        for item in values:
            exact.append(_exact(item))  # noqa: PERF401 - its length says where an error was
    except _InexactError as error:
        error.steps.append(f"[{len(exact)}]")
        raise
    return exact


def _exact_object(items: Mapping[Any, Any]) -> dict[Any, Any]:
    exact = {}
    for name, item in items.items():
        try:
            exact[name] = _exact(item)
        except _InexactError as error:
            error.steps.append(f".{name}")
            raise
    return exact


def as_number(value: object) -> object:
    """A fraction that a plan of version 2 holds as a decimal string; anything else as it is."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
