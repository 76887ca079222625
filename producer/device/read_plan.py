"""Reads a plan on a device, which does not trust the plan's author: signatures come first.

The constants bound the cost of a plan. Text is checked before it is parsed, and the work of one
report before a mechanism is prepared. Every plan that passes can be reported under.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.plan import MAX_GROUPS, Group, Plan
from calmstream.estimators.plan.document import parse, plan_of
from calmstream.estimators.wire.batch import MAX_BATCH_BYTES, RESERVED_BYTES
from calmstream.producer.device.policy import AcceptedPlan
from calmstream.producer.signed.envelope import read_envelope, signed_lineage, verify
from calmstream.producer.signed.refusal import PlanRefused, Refusal

MAX_DEVICE_PLAN_BYTES = 8 << 20  # far above what ``calmstream plan`` writes
MAX_TOKENS = 1 << 20  # commas, colons, opening brackets; the largest plan has 850,000
MAX_CONTAINERS = 400_000  # lists and objects, which cost more; a view has three
MAX_DEPTH = 32  # of nesting; plans with a pilot have 10
MAX_VIEWS = 1 << 16  # of all groups together; no method plans more
MAX_REPORT_BYTES = MAX_BATCH_BYTES - RESERVED_BYTES  # so that one fits into a record
MAX_RANDOM_BYTES = 16 << 20  # for one report: twice what the largest takes
MAX_HASHES = 1 << 20  # to prepare all groups: 16 of each of 65,536 values
MAX_COMPARISONS = 1 << 27  # of 64-bit words: filters of 256 bits, three attributes of 4,096 values
MESSAGE_CHARACTERS = 300  # an error can quote texts of the plan of any length
_OPENING, _CLOSING, _SEPARATING = b"[{", b"]}", b",:"


def read_signed_plan(raw: bytes, roots: Collection[str] | None) -> AcceptedPlan:
    """Verify an envelope and read its plan, at a bounded cost; `standing` checks the policy.

    ``roots`` are trusted; None accepts the root that the envelope itself names.
    """
    raw = bytes(raw)
    try:
        envelope = read_envelope(raw)
    except ValueError as error:
        raise _no_envelope(raw, error) from None
    statement = verify(envelope, roots)
    plan = _signed_plan(envelope.plan)
    if plan.lineage != signed_lineage(statement.root, plan.lineage_name):
        raise PlanRefused(
            Refusal.WRONG_LINEAGE, "lineage does not follow from the root and lineage_name"
        )
    return AcceptedPlan(plan, statement)


def read_any_plan(
    given: Plan | bytes, roots: Collection[str] | None, *, allow_unsigned: bool
) -> AcceptedPlan:
    """Read what an application gives to a reporter: an envelope or, if allowed, a plan."""
    if not isinstance(given, Plan):
        try:
            return read_signed_plan(given, roots)
        except PlanRefused as refused:
            if refused.reason is not Refusal.UNSIGNED or not allow_unsigned:
                raise
        given = read_device_plan(given)
    if not allow_unsigned:
        raise _unsigned()
    return AcceptedPlan(given, None)


def read_device_plan(raw: bytes) -> Plan:
    """Read a plan on a device.

    Cost: bounded by the constants of this module, whatever the bytes are.

    Raises:
        PlanError: the reason is one of `read_plan`; or the document is too large, is nested too
            deeply or has too many values; or a report would take too much work.
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
    """Check size, nesting and number of values before a parser creates objects. Cost: O(bytes)."""
    if len(raw) > MAX_DEVICE_PLAN_BYTES:
        raise PlanError(f"plan: {len(raw):,} bytes; a device reads {MAX_DEVICE_PLAN_BYTES:,}")
    # After escaped backslashes and quotes are removed, every quote begins or ends a string.
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
    groups = document.get("groups") if isinstance(document, dict) else None
    if not isinstance(groups, list):
        return
    if len(groups) > MAX_GROUPS:
        raise PlanError(f"{len(groups)} groups; at most {MAX_GROUPS} topics are allowed")
    lists = [group.get("views") for group in groups if isinstance(group, dict)]
    views = sum(len(views) for views in lists if isinstance(views, list))
    if views > MAX_VIEWS:
        raise PlanError(f"{views:,} views; a device reads {MAX_VIEWS:,}")


def _check_work(groups: tuple[Group, ...]) -> None:
    hashes = comparisons = 0
    for g, group in enumerate(groups):
        work = group.mechanism.report_work
        views = len(str(len(group.views)))
        _limit(g, "bytes", work.bytes + views, MAX_REPORT_BYTES)
        _limit(g, "random bytes", work.random_bytes, MAX_RANDOM_BYTES)
        hashes += work.hashes
        comparisons += work.comparisons
        _limit(g, "hashes with those of the groups before", hashes, MAX_HASHES)
        _limit(g, "comparisons with those of the groups before", comparisons, MAX_COMPARISONS)


def _limit(g: int, what: str, amount: int, maximum: int) -> None:
    if amount > maximum:
        raise PlanError(
            f"groups[{g}]: a report takes {amount:,} {what}; a device takes {maximum:,} at most"
        )


def _short(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARACTERS else f"{text[: MESSAGE_CHARACTERS - 1]}…"


def _signed_plan(raw: bytes) -> Plan:
    try:
        plan = read_device_plan(raw)
    except PlanError as error:
        raise PlanRefused(Refusal.UNREADABLE_PLAN, str(error)) from None
    if not plan.lineage_name:
        raise PlanRefused(Refusal.UNREADABLE_PLAN, "a signed plan states lineage_name")
    # The digest is that of the canonical form: equal digests prove that the bytes are canonical.
    if plan.digest != hashlib.sha256(raw).hexdigest():
        raise PlanRefused(Refusal.UNREADABLE_PLAN, "the plan is not in its canonical form")
    return plan


def _no_envelope(raw: bytes, error: ValueError) -> PlanRefused:
    try:
        read_device_plan(raw)
    except PlanError as second:
        return PlanRefused(Refusal.MALFORMED, f"neither an envelope ({error}) nor a plan: {second}")
    return _unsigned()


def _unsigned() -> PlanRefused:
    return PlanRefused(
        Refusal.UNSIGNED,
        "sign it (calmstream sign); demonstrations and tests say allow_unsigned=True",
    )
