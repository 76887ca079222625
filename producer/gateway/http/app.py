"""The gateway's requests as an ASGI application. Nothing of the sender is kept or logged."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from calmstream.common.errors import Reason, Rejection
from calmstream.common.http.answer import Headers, HttpReply
from calmstream.common.http.sending import Send, send_answer
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.report import report_of
from calmstream.producer.gateway.durable.entries import SpoolEntry
from calmstream.producer.gateway.durable.plan_spool import Result, SpoolOutcome
from calmstream.producer.gateway.encoding import row_of
from calmstream.producer.gateway.http.app_keys import EVERYBODY, AppKey
from calmstream.producer.gateway.http.plans import Offered
from calmstream.producer.gateway.http.problems import GatewayProblem, RefusedRequest

if TYPE_CHECKING:
    from calmstream.producer.gateway.http.gateway import Gateway

PLANS = "/v1/plans"
MAX_REPORTS = 1000
_MOST = f"at most {MAX_REPORTS:,} are taken"
JSON = b"application/json"
JSON_LINES = frozenset((b"application/x-ndjson", b"application/jsonl", b"application/json-lines"))
_REPORT_ID = re.compile(r"[0-9a-f]{32}")
_FIELDS = {"id", "report"}
_TAKEN = frozenset((SpoolOutcome.ACCEPTED, SpoolOutcome.DUPLICATE))
_JSON_HEADERS: Headers = ((b"content-type", JSON), (b"cache-control", b"no-store"))
_IMMUTABLE = b"public, max-age=86400, immutable"

Receive = Callable[[], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Line:
    """What to spool of a report, or why it is refused; ``detail`` has nothing of its values."""

    report_id: str | None
    entry: SpoolEntry | Result
    detail: str = ""


class GatewayApp:
    """The ASGI application."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        try:
            answer = await self._answer(scope, headers, receive)
        except RefusedRequest as refused:
            answer = refused.answer
        except (ConnectionAbortedError, asyncio.CancelledError):
            return  # nobody waits for an answer
        except Exception as error:  # noqa: BLE001 - one request's defect is not another's
            self._gateway.note(error)
            answer = GatewayProblem.INTERNAL.answer()
        self._gateway.metrics.answered(answer.problem)
        extra = self._gateway.origins.headers(headers.get(b"origin"))
        await send_answer(send, replace(answer, headers=answer.headers + extra))

    async def _answer(
        self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes], receive: Receive
    ) -> HttpReply:
        method, path = scope["method"], scope["path"]
        digest, _, rest = path.removeprefix(f"{PLANS}/").partition("/")
        if path == PLANS:
            allowed, digest = "GET", ""
        elif path.startswith(f"{PLANS}/") and digest and rest in {"", "reports"}:
            allowed = "POST" if rest else "GET"
        else:
            raise RefusedRequest(GatewayProblem.NOT_FOUND)
        if method == "OPTIONS":
            self._gateway.note_origin(self._gateway.origins.refuses(headers.get(b"origin")))
            return self._gateway.origins.preflight(headers.get(b"origin"), allowed)
        if method != allowed and (method, allowed) != ("HEAD", "GET"):
            allow = (b"allow", f"{allowed}, OPTIONS".encode())
            raise RefusedRequest(GatewayProblem.METHOD, headers=(allow,))
        if not digest:
            return self._list()
        offered = self._gateway.offered.get(digest)
        if offered is None:
            raise RefusedRequest(GatewayProblem.UNKNOWN_PLAN)
        if allowed == "GET":
            return _document(offered, headers)
        return await self._reports(offered, headers, receive)

    def _list(self) -> HttpReply:
        now = self._gateway.present()
        plans = [
            {
                "digest": digest,
                "name": offered.plan.name,
                "start": offered.plan.start,
                "expires": offered.plan.expires,
                "window": offered.plan.window,
            }
            for digest, offered in sorted(self._gateway.offered.items())
            if now < offered.over
        ]
        return HttpReply(200, orjson.dumps({"plans": plans}), _JSON_HEADERS)

    async def _reports(
        self, offered: Offered, headers: Mapping[bytes, bytes], receive: Receive
    ) -> HttpReply:
        media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        key = self._checked(offered, headers, media_type)
        body = await self._body(headers, receive)
        lines = read_reports(offered.plan, key.number, body, media_type)
        if not lines:
            raise RefusedRequest(GatewayProblem.NO_REPORTS)
        entries = [line.entry for line in lines if isinstance(line.entry, SpoolEntry)]
        found: list[Result] = []
        if entries:
            found = await self._gateway.committer.submit(offered.plan, entries, key.per_window)
        spooled = iter(found)
        results = [
            next(spooled) if isinstance(line.entry, SpoolEntry) else line.entry for line in lines
        ]
        self._gateway.metrics.checked(offered.plan, Counter(results))
        return _verdict(lines, results, self._seconds_left(offered))

    def _checked(
        self, offered: Offered, headers: Mapping[bytes, bytes], media_type: bytes
    ) -> AppKey:
        if self._gateway.stopping:
            raise RefusedRequest(GatewayProblem.STOPPING)
        keys = self._gateway.app_keys
        key = EVERYBODY if keys is None else keys.find(headers.get(b"authorization", b""))
        if key is None:
            raise RefusedRequest(GatewayProblem.UNAUTHORIZED)
        if offered.plan.digest in self._gateway.counted.refused:
            raise RefusedRequest(GatewayProblem.NOT_COUNTED)
        if media_type != JSON and media_type not in JSON_LINES:
            raise RefusedRequest(
                GatewayProblem.CONTENT_TYPE, "application/json or application/x-ndjson is read"
            )
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise RefusedRequest(GatewayProblem.CONTENT_ENCODING)
        if self._gateway.present() >= offered.over + 1000 * offered.plan.grace:
            raise RefusedRequest(GatewayProblem.PLAN_OVER)
        return key

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        stated = headers.get(b"content-length", b"0")
        most = f"at most {self._gateway.settings.body_bytes:,} bytes are read"
        if len(stated) > 12 or int(stated) > self._gateway.settings.body_bytes:
            raise RefusedRequest(GatewayProblem.TOO_LARGE, most)
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionAbortedError
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._gateway.settings.body_bytes:
                raise RefusedRequest(GatewayProblem.TOO_LARGE, most)
        return bytes(body)

    def _seconds_left(self, offered: Offered) -> int:
        """Until the present window ends: then quotas begin anew."""
        plan, now = offered.plan, self._gateway.present()
        left = plan.window_end(max(plan.window_at(now), 0)) - now
        return max(left // 1000 + 1, 1)


def _document(offered: Offered, headers: Mapping[bytes, bytes]) -> HttpReply:
    cache = _IMMUTABLE if offered.fixed else b"no-cache"
    fixed: Headers = ((b"etag", offered.etag), (b"cache-control", cache))
    known = {tag.strip() for tag in headers.get(b"if-none-match", b"").split(b",")}
    if known & {offered.etag, b"W/" + offered.etag, b"*"}:
        return HttpReply(304, b"", fixed)
    return HttpReply(200, offered.document, ((b"content-type", JSON), *fixed))


def _verdict(lines: Sequence[Line], results: Sequence[Result], seconds_left: int) -> HttpReply:
    """A success says that no report has to be sent again: not where one may succeed later."""
    stated = [
        {"id": line.report_id, "result": result.value}
        | ({"detail": line.detail} if line.detail else {})
        for line, result in zip(lines, results, strict=True)
    ]
    kinds = set(results)
    if SpoolOutcome.UNAVAILABLE in kinds:
        return GatewayProblem.UNAVAILABLE.answer(results=stated)
    if SpoolOutcome.QUOTA in kinds:
        return GatewayProblem.QUOTA.answer(retry_after=seconds_left, results=stated)
    if kinds & _TAKEN:
        return HttpReply(202, orjson.dumps({"results": stated}), _JSON_HEADERS)
    if kinds == {Reason.UNDECODABLE} and all(line.report_id is None for line in lines):
        return GatewayProblem.NOT_JSON.answer(results=stated)
    return GatewayProblem.REFUSED.answer(results=stated)


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
