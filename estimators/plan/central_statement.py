"""What readers of snapshots learn about a device: a central guarantee beside the local one.

A subscriber sees functions of counts, which is all that a shuffler of reports would let through.
docs/central-statement.md has the proof and the conditions.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from calmstream.estimators.numerics.shuffling import central_epsilon
from calmstream.estimators.plan.plan import Plan

FORGED_SHARE = 0.1  # of all reports, which may be forged or come from devices that reveal theirs
LARGEST_DELTA = 1e-6  # of a statement, unless a tenth of one report's share is less

_READERS = "readers see no early sets, open windows, state, reports or dead letters"
_FORGED = f"at most {100 * FORGED_SHARE:g} % of the reports are forged or of colluding devices"
_SECRET = "a device reveals neither its group and view nor anything else"  # noqa: S105 - a sentence
_NEIGHBOURS = (
    "for one record of one device; participation is public; households and other plans add up"
)
_ONCE = "a device reports in one window only, so the statement holds for all finals together"
_EVENT = "a device keeps its view: epsilon and delta of the windows in which it reports add up"


@dataclass(frozen=True, slots=True)
class CentralStatement:
    """The statement of one final."""

    epsilon: float
    delta: float
    n: int
    assumes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "assumes": list(self.assumes)}


def central_statement(plan: Plan, reports: int, smallest_view: int) -> CentralStatement | None:
    """Return the statement of a final; None where there is none.

    There is none with early sets, which show increments, or if the reports are too few to hide
    anybody. The caller makes none for counts that look forged.
    """
    if plan.early:
        return None
    once = plan.guarantee.windows == 1
    n = int((1.0 - FORGED_SHARE) * (reports if once else smallest_view))
    if n < 2:
        return None
    delta = min(LARGEST_DELTA, 1.0 / (10 * n))
    epsilon = _up(central_epsilon(float(plan.epsilon), n, delta))
    if epsilon >= float(plan.epsilon):
        return None
    windows = _ONCE if once else _EVENT
    return CentralStatement(epsilon, delta, n, (_READERS, _FORGED, _SECRET, windows, _NEIGHBOURS))


def expected_statement(plan: Plan) -> CentralStatement | None:
    """Return the statement of a window with the reports that the plan expects."""
    smallest = min(share for group in plan.groups for share in group.shares)
    return central_statement(plan, plan.users, plan.users * smallest // plan.total_share)


def _up(value: float) -> float:
    """Round up to three significant digits."""
    digits = float(f"{value:.2e}")
    if digits >= value:
        return digits
    exponent = int(f"{value:e}".partition("e")[2])
    return float(f"{digits + 10.0 ** (exponent - 2):.2e}")
