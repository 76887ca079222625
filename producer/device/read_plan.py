"""Reading a plan on a device. The author of the plan is not trusted.

The constants of this module bound what a plan can cost a device: the document before it is parsed,
and the work of one report before a mechanism is prepared. A plan that was read can report.
"""

from __future__ import annotations

import numpy as np

from estimators.errors import PlanError
from estimators.plan import MAX_GROUPS, Group, Plan
from estimators.plan.document import parse, plan_of
from estimators.wire.batch import MAX_BATCH_BYTES
from producer.device.encoding import FRAME_BYTES, HEAD_BYTES

MAX_DEVICE_PLAN_BYTES = 8 << 20
"""Far above the size of plans that `calmstream plan` writes."""

MAX_TOKENS = 1 << 20
"""Commas, colons and opening brackets outside strings: time and memory of reading grow with them.
65,536 views over three attributes, the most that are planned, take 850,000."""

MAX_CONTAINERS = 400_000
"""Lists and objects: they cost more than numbers. A view has three, a marginal one."""

MAX_DEPTH = 32
"""Levels of nested lists and objects; plans with a pilot have 10."""

MAX_VIEWS = 1 << 16
"""Of all groups together; the most that methods plan."""

MAX_REPORT_BYTES = MAX_BATCH_BYTES - FRAME_BYTES - HEAD_BYTES
"""Of a report's columns: a report must fit into a record alone."""

MAX_RANDOM_BYTES = 16 << 20
"""For one report: twice of what a report of the largest size draws."""

MAX_HASHES = 1 << 20
"""Over all groups: sixteen hashes of nearly 65,536 values."""

MAX_COMPARISONS = 1 << 27
"""Of words of 64 bits, over all groups: three axes of 4,096 values with filters of 256 bits."""

MESSAGE_CHARACTERS = 300
"""Most characters of an error message: it quotes texts of the plan, which have any length."""

_OPENING, _CLOSING, _SEPARATING = b"[{", b"]}", b",:"


def read_device_plan(raw: bytes) -> Plan:
    """Read a plan on a device; any bytes are read or refused at a bounded cost.

    Cost: bounded by the constants of this module, whatever the bytes.

    Raises:
        PlanError: as :func:`estimators.plan.document.read_plan`; or too large, nested too deeply,
            too many values, or a report that would take too much work. One line.
    """
    try:
        raw = bytes(raw)
        _check_text(raw)
        document = parse(raw)
        _check_numbers(document)
        return plan_of(document, _check_work)
    except PlanError as error:
        raise PlanError(_short(str(error))) from None


def _check_text(raw: bytes) -> None:
    """Size, nesting and number of values, before a parser makes objects of them. O(bytes)."""
    if len(raw) > MAX_DEVICE_PLAN_BYTES:
        raise PlanError(f"plan: {len(raw):,} bytes; a device reads {MAX_DEVICE_PLAN_BYTES:,}")
    # Without escaped backslashes and quotes, every quote left begins or ends a string.
    text = np.frombuffer(raw.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
    outside = np.bitwise_xor.accumulate((text == ord('"')).view(np.uint8)) == 0
    opens = outside & np.isin(text, list(_OPENING))
    containers = int(np.count_nonzero(opens))
    if containers > MAX_CONTAINERS:
        raise PlanError(
            f"plan: {containers:,} lists and objects; a device reads {MAX_CONTAINERS:,}"
        )
    tokens = containers + int(np.count_nonzero(outside & np.isin(text, list(_SEPARATING))))
    if tokens > MAX_TOKENS:
        raise PlanError(f"plan: {tokens:,} values; a device reads {MAX_TOKENS:,}")
    closes = outside & np.isin(text, list(_CLOSING))
    steps = opens.view(np.int8)[opens | closes] * 2 - 1
    if int(np.cumsum(steps, dtype=np.int32).max(initial=0)) > MAX_DEPTH:
        raise PlanError(f"plan: nested more than {MAX_DEPTH} levels deep")


def _check_numbers(document: object) -> None:
    """Number of groups and of views, before each is read."""
    groups = document.get("groups") if isinstance(document, dict) else None
    if not isinstance(groups, list):
        return
    if len(groups) > MAX_GROUPS:
        raise PlanError(f"{len(groups)} groups; at most {MAX_GROUPS} topics are allowed")
    lists = [group.get("views") for group in groups if isinstance(group, dict)]
    views = sum(len(views) for views in lists if isinstance(views, list))
    if views > MAX_VIEWS:
        raise PlanError(f"{views:,} views; a device reads {MAX_VIEWS:,}")


def _check_work(groups: tuple[Group, ...], epsilon: str) -> None:
    """Work of a report in every group, and of preparing all groups."""
    hashes = comparisons = 0
    for g, group in enumerate(groups):
        work = group.build(epsilon).report_work
        views = len(str(len(group.views)))
        _limit(g, "bytes", work.bytes + views, MAX_REPORT_BYTES)
        _limit(g, "random bytes", work.random_bytes, MAX_RANDOM_BYTES)
        hashes += work.hashes
        comparisons += work.comparisons
        _limit(g, "hashes with those of the groups before", hashes, MAX_HASHES)
        _limit(g, "comparisons with those of the groups before", comparisons, MAX_COMPARISONS)


def _limit(g: int, what: str, amount: int, most: int) -> None:
    if amount > most:
        raise PlanError(
            f"groups[{g}]: a report takes {amount:,} {what}; a device takes {most:,} at most"
        )


def _short(text: str) -> str:
    if len(text) <= MESSAGE_CHARACTERS:
        return text
    return f"{text[: MESSAGE_CHARACTERS - 1]}…"
