"""The body of a request: one report, or up to 1,000 as JSON lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

import orjson

from calmstream.common.errors import Reason, Rejection
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.report import report_of
from calmstream.producer.gateway.durable.entries import SpoolEntry
from calmstream.producer.gateway.durable.plan_spool import Result, SpoolOutcome
from calmstream.producer.gateway.encoding import row_of
from calmstream.producer.gateway.http.problems import GatewayProblem, RefusedRequest

MAX_REPORTS = 1000
_MOST = f"at most {MAX_REPORTS:,} are taken"
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


def read_reports(plan: Plan, key: int, body: bytes, media_type: bytes) -> list[Line]:
    """Read a body; what is wrong with one report concerns no other one."""
    # The newlines are counted first, so that a body of newlines only makes no list of them.
    if media_type != JSON and body.count(b"\n") > 2 * MAX_REPORTS:
        raise RefusedRequest(GatewayProblem.TOO_MANY_REPORTS, _MOST)
    texts = [body] if media_type == JSON else body.split(b"\n")
    texts = [text for text in texts if text and not text.isspace()]
    if len(texts) > MAX_REPORTS:
        raise RefusedRequest(GatewayProblem.TOO_MANY_REPORTS, _MOST)
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
