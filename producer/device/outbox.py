"""The outbox: hands the reports that wait in a device's store to a gateway."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from calmstream.common.clock import wall_clock
from calmstream.common.errors import InvalidInput, RecoverableError
from calmstream.producer.device.history import WaitingReport
from calmstream.producer.device.ledger import DeviceState
from calmstream.producer.device.store import DeviceStore
from calmstream.producer.signed.envelope import MAX_ENVELOPE_BYTES

MAX_ANSWER_BYTES = 1 << 20
ACCEPTED = 202  # no other answer takes reports: a captive portal answers 200
_LATER = frozenset((408, 425, 429))
_NOT_NOW = frozenset((401, 403, 404))


@dataclass
class Delivered:
    """What one call of `Outbox.deliver` did.

    Attributes:
        taken: number of reports that the gateway has.
        lost: number of reports that were dropped because their time was over.
        waiting: number of reports that still wait.
        refused: the gateway's reason for each report that it will never take; these are dropped.
        trouble: why reports wait; empty where none does.
    """

    taken: int = 0
    lost: int = 0
    waiting: int = 0
    refused: list[str] = field(default_factory=list)
    trouble: str = ""


class Outbox:
    """Hands the reports of a device to a gateway, over many short runs.

    A report that is made with ``keep=True`` waits in the store, with a random id by which the
    gateway recognises a repeat; at most 64 wait, and the oldest are given up. Call `deliver` at the
    start of a program, after each report, and some times a day in a program that runs for long.
    `withdraw` drops what waits. Processes can share the store.

    Args:
        store: the device's store.
        gateway: address of a gateway, such as ``https://reports.example.org``.
        app_key: the application key, where the gateway asks for one.
        seconds: the longest wait for one answer.
        clock: returns milliseconds since the epoch.
    """

    def __init__(
        self,
        store: DeviceStore,
        gateway: str,
        *,
        app_key: str = "",
        seconds: float = 10.0,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        if not gateway.startswith(("https://", "http://")):
            raise InvalidInput(f"gateway: expected an address with https, got {gateway:.100}")
        self._store, self._plans = store, f"{gateway.rstrip('/')}/v1/plans"
        self._headers = {"Content-Type": "application/x-ndjson", "User-Agent": "calmstream"}
        if app_key:
            self._headers["Authorization"] = f"Bearer {app_key}"
        self._seconds, self._clock = seconds, clock
        self._opener = urllib.request.build_opener(_NoRedirects)

    def plans(self) -> list[bytes]:
        """Return the plans that the gateway offers, each as `Reporter` takes it.

        Keep them for a start without a network. Each call fetches all plans whole, so ask once a
        day: a plan can be signed again.

        Raises:
            RecoverableError: no gateway answers.
        """
        try:
            listed = json.loads(self._get("", MAX_ANSWER_BYTES))["plans"]
            digests = [urllib.parse.quote(each["digest"], safe="") for each in listed]
            return [self._get(f"/{digest}", MAX_ENVELOPE_BYTES) for digest in digests]
        except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException) as error:
            raise RecoverableError(f"the gateway offers no plans: {error}") from None

    def deliver(self) -> Delivered:
        """Send what waits, each report once, and forget what is settled.

        It stops at the first answer that asks to wait, and waits for nothing itself. What the
        gateway answers is no error; errors are those of the store.
        """
        found, settled = Delivered(), set[str]()
        for each in self._store.read().waiting:
            # Another process may have delivered it, or the person may have withdrawn.
            if each not in self._store.read().waiting:
                continue
            if self._clock() >= each.until:
                found.lost += 1
                settled.add(each.id)
                continue
            status, result = self._post(each)
            if status == ACCEPTED and result in {"", "accepted", "duplicate"}:
                found.taken += 1
                settled.add(each.id)
            elif (status < 400 and status != ACCEPTED) or status in _LATER or status >= 500:
                found.trouble = result or f"the gateway answers {status}"
                break
            elif status in _NOT_NOW or result == "early":
                found.trouble = f"the gateway answers {status} {result}".rstrip()
            else:
                found.refused.append(f"{status} {result}".rstrip())
                settled.add(each.id)
        found.waiting = self._forget(settled)
        return found

    def _forget(self, settled: set[str]) -> int:
        def change(state: DeviceState) -> DeviceState:
            left = tuple(each for each in state.waiting if each.id not in settled)
            return state if left == state.waiting else replace(state, waiting=left)

        return len(self._store.update(change).waiting)

    def _get(self, path: str, most: int) -> bytes:
        url = self._plans + path
        request = urllib.request.Request(url, None, self._headers)  # noqa: S310 - checked above
        with self._opener.open(request, timeout=self._seconds) as answer:
            raw = bytes(answer.read(most + 1))
        if answer.status != 200 or len(raw) > most:
            raise ValueError(f"status {answer.status}, {len(raw):,} bytes")
        return raw

    def _post(self, waiting: WaitingReport) -> tuple[int, str]:
        """Return the answer's status, and what it says of the report; 503 and why without one."""
        body = f'{{"id":"{waiting.id}","report":{waiting.report}}}\n'.encode()
        url = f"{self._plans}/{waiting.digest}/reports"
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


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A report goes to the gateway that the application names, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _result(raw: bytes) -> str:
    try:
        answer = json.loads(raw)
        stated = answer.get("results") or [{"result": answer.get("reason", "")}]
        return str(stated[0]["result"])[:100]
    except (ValueError, AttributeError, LookupError, TypeError, RecursionError):
        return ""
