"""The body of a request: one report, or up to 1,000 as JSON lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from calmstream.common.errors import Reason, Rejection
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.report import report_of
from calmstream.producer.gateway.durable.entries import SpoolEntry
from calmstream.producer.gateway.durable.plan_spool import Result, SpoolOutcome
from calmstream.producer.gateway.encoding import row_of

MAX_REPORTS = 1000
JSON = b"application/json"
JSON_LINES = frozenset((b"application/x-ndjson", b"application/jsonl", b"application/json-lines"))
_REPORT_ID = re.compile(r"[0-9a-f]{32}")
_FIELDS = {"id", "report"}


@dataclass(frozen=True, slots=True)
class Line:
    """What to spool of a report, or why it is refused; ``detail`` has nothing of its values."""

    report_id: str | None
    entry: SpoolEntry | Result
    detail: str = ""


class TooManyReports(ValueError):  # noqa: N818 - it is an outcome, not a defect
    """The body holds more than 1,000 reports."""


def read_reports(plan: Plan, key: int, body: bytes, media_type: bytes) -> list[Line]:
    """Read a body; what is wrong with one report concerns no other one."""
    texts: Sequence[bytes] = [body]
    if media_type != JSON:
        # The newlines are counted first, so that a body of newlines only makes no list of them.
        if body.count(b"\n") > 2 * MAX_REPORTS:
            raise TooManyReports
        texts = body.split(b"\n")
    texts = [text for text in texts if text and not text.isspace()]
    if len(texts) > MAX_REPORTS:
        raise TooManyReports
    return [_line(plan, key, text) for text in texts]


def _line(plan: Plan, key: int, text: bytes) -> Line:
    try:
        document = orjson.loads(text)
    except (orjson.JSONDecodeError, RecursionError):
        return Line(None, Reason.UNDECODABLE, "not JSON")
    if not isinstance(document, dict) or set(document) != _FIELDS:
        return Line(None, Reason.MALFORMED, "expected an object with the fields id and report")
    report_id = document["id"]
    if not isinstance(report_id, str) or _REPORT_ID.fullmatch(report_id) is None:
        return Line(None, SpoolOutcome.BAD_REPORT_ID, "id: expected 32 lower-case hex digits")
    try:
        group, batch = report_of(plan, document["report"])
    except Rejection as rejection:
        return Line(report_id, rejection.reason, f"report: {rejection.detail}")
    row = row_of(plan, group, batch)
    return Line(report_id, SpoolEntry(bytes.fromhex(report_id), key, group, batch.period, row))
