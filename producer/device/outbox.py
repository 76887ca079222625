"""The outbox: reports wait in a file until a gateway has taken them, over many short runs."""

from __future__ import annotations

import http.client
import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmstream.common.clock import wall_clock
from calmstream.common.errors import FatalError, InvalidInput
from calmstream.common.files import exclusive, read_if_there, real_path, write_durably
from calmstream.producer.device.state_json import STORE_VERSION, sealed, unsealed

if TYPE_CHECKING:
    from calmstream.estimators.plan import Plan
    from calmstream.producer.device.report import Report

MAX_WAITING = 64
"""Maximum number of reports that wait; the oldest are given up."""

MAX_ANSWER_BYTES = 1 << 20
ACCEPTED = 202
"""The only answer with which a gateway takes reports: a captive portal answers 200, for one."""

_LATER = frozenset((408, 425, 429))
_NOT_NOW = frozenset((401, 403, 404))


@dataclass
class Delivered:
    """What a delivery did: reports taken, lost because it was too late, and still waiting.

    ``refused`` has the gateway's reason for each report that it will never take. ``trouble`` says
    why reports wait; empty where none does.
    """

    taken: int = 0
    lost: int = 0
    waiting: int = 0
    refused: list[str] = field(default_factory=list)
    trouble: str = ""


class Outbox:
    """Keeps the reports of a device until a gateway has taken them.

    Each report has a random id, chosen once, by which the gateway recognises a repeat. Call
    :meth:`deliver` at the start of a program and after :meth:`put`. A crash between ``report`` and
    ``put`` loses the report, and never makes a second one. Processes can share the file.

    Args:
        path: the file, not that of the device's store.
        gateway: address of a gateway, such as ``https://reports.example.org``.
        app_key: the application key, where the gateway asks for one.
        seconds: the longest wait for one answer.
    """

    def __init__(
        self,
        path: str | Path,
        gateway: str,
        *,
        app_key: str = "",
        seconds: float = 10.0,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        if not gateway.startswith(("https://", "http://")):
            raise InvalidInput(f"gateway: expected an address with https, got {gateway:.100}")
        self._path = real_path(path)
        self._gateway = gateway.rstrip("/")
        self._headers = {"Content-Type": "application/x-ndjson", "User-Agent": "calmstream"}
        if app_key:
            self._headers["Authorization"] = f"Bearer {app_key}"
        self._seconds, self._clock = seconds, clock
        self._opener = urllib.request.build_opener(_NoRedirects)

    def put(self, plan: Plan, report: Report) -> None:
        """Let a report wait; it is durable on return."""
        line = {
            "id": secrets.token_hex(16),
            "plan": plan.digest,
            "report": report.encode(plan).decode(),
            # Half of the grace is the gateway's, for its own way to the log.
            "until": plan.window_end(report.period) + 500 * plan.grace,
        }
        self._change(lambda waiting: [*waiting, line][-MAX_WAITING:])

    def deliver(self) -> Delivered:
        """Send what waits, once, and forget what is settled; raises only for the file."""
        found, settled = Delivered(), set[str]()
        for line in self._read():
            if self._clock() >= line["until"]:
                found.lost += 1
                settled.add(line["id"])
                continue
            status, result = self._post(line)
            if status == ACCEPTED and result in {"", "accepted", "duplicate"}:
                found.taken += 1
                settled.add(line["id"])
            elif (status < 400 and status != ACCEPTED) or status in _LATER or status >= 500:
                found.trouble = result or f"the gateway answers {status}"
                break
            elif status in _NOT_NOW or result == "early":
                found.trouble = f"the gateway answers {status} {result}".rstrip()
            else:
                found.refused.append(f"{status} {result}".rstrip())
                settled.add(line["id"])
        left = self._change(lambda waiting: [each for each in waiting if each["id"] not in settled])
        found.waiting = len(left)
        return found

    def _post(self, line: dict[str, Any]) -> tuple[int, str]:
        """Return the answer's status, and what it says of the report; 0 and why without one."""
        body = f'{{"id":"{line["id"]}","report":{line["report"]}}}\n'.encode()
        url = f"{self._gateway}/v1/plans/{line['plan']}/reports"
        request = urllib.request.Request(url, body, self._headers)  # noqa: S310 - checked above
        try:
            try:
                answer = self._opener.open(request, timeout=self._seconds)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                return answer.status, _result(answer.read(MAX_ANSWER_BYTES))
        except (OSError, ValueError, http.client.HTTPException) as error:  # also what is no HTTP
            return 503, f"the gateway does not answer: {error}"

    def _read(self) -> list[dict[str, Any]]:
        raw = read_if_there(self._path)
        if raw is None:
            return []
        try:
            return list(unsealed(raw)["waiting"])
        except (ValueError, KeyError, TypeError) as error:
            raise FatalError(
                f"{self._path} cannot be read ({error}); without it the reports in it are lost"
            ) from None

    def _change(self, change: Callable[[list[Any]], list[Any]]) -> list[dict[str, Any]]:
        with exclusive(self._path, wait=True):
            before = self._read()
            after = change(before)
            if after != before:
                write_durably(self._path, sealed({"version": STORE_VERSION, "waiting": after}))
            return after


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A report goes to the gateway that the application names, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _result(raw: bytes) -> str:
    """Return what an answer says of its one report; empty where it says nothing."""
    try:
        answer = json.loads(raw)
        stated = answer.get("results") or [{"result": answer.get("reason", "")}]
        return str(stated[0]["result"])[:100]
    except (ValueError, AttributeError, LookupError, TypeError, RecursionError):
        return ""
