"""Health of the roles in this process, and how it is reported over HTTP.

``/livez`` and ``/readyz`` answer 200 or 503 with one line for each role, and one for each of its
plans that is not well; never with any part of a report. ``/metrics`` is for Prometheus.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from calmstream.common.clock import Clock
from calmstream.common.http.answer import HttpReply
from calmstream.common.http.server import Handler

SILENCE_SECONDS = 60.0
"""A loop that has not run for this long is not alive; every round takes a few seconds at most."""

AWAY_SECONDS = 25.0
"""A role is not ready if for so long no broker has answered (one is asked every ten seconds), or if
it has been outside its consumer group."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a health check."""

    well: bool
    detail: str


class RoleHealth:
    """The health of one role. Safe for use from several threads."""

    def __init__(self, name: str, clock: Clock, *, away_seconds: float = AWAY_SECONDS) -> None:
        self.name = name
        self._clock = clock
        self._away = away_seconds
        self._lock = threading.Lock()
        self._turned = clock.monotonic()
        self._stuck = ""
        self._not_ready = "starting"
        self._fault = ""
        self._silent: Callable[[], float] = lambda: 0.0
        self._troubles: Mapping[str, str] = {}
        self._joined_at = clock.monotonic()
        self._joined_once = False

    def turned(self) -> None:
        """Note that the loop has run once more; to be called at least every few seconds."""
        with self._lock:
            self._turned = self._clock.monotonic()

    def stuck(self, what: str) -> None:
        """Note what makes no progress, in words; an empty text means that everything does."""
        with self._lock:
            self._stuck = what

    def ready(self) -> None:
        with self._lock:
            self._not_ready = ""

    def not_ready(self, why: str) -> None:
        """Note why the role cannot work now, in words such as "starting"; empty if it can."""
        with self._lock:
            self._not_ready = why

    def member(self, joined: bool, else_missing: str = "") -> None:
        """Note whether the role is in its consumer group, and what else it may lack."""
        now = self._clock.monotonic()
        if joined:
            self._joined_at, self._joined_once = now, True
        away = now - self._joined_at
        why = else_missing if self._joined_once else "joining"
        if away > self._away:
            why = f"outside its consumer group for {away:.0f} s: is the group's coordinator up?"
        self.not_ready(why)

    def watched(self, silent_seconds: Callable[[], float], fault: str = "") -> None:
        """Note how to ask for the silence of the broker, and what is wrong with the topics."""
        with self._lock:
            self._silent, self._fault = silent_seconds, fault

    @property
    def fault(self) -> str:
        """What is wrong with the topics; empty if nothing is."""
        with self._lock:
            return self._fault

    @property
    def silent_seconds(self) -> float:
        """The age of the last answer from a broker while requests fail; 0 otherwise."""
        with self._lock:
            return self._silent()

    def troubled(self, plans: Mapping[str, str]) -> None:
        """Note which of many plans are not well, and why; the verdict on the role stays."""
        with self._lock:
            self._troubles = plans

    @property
    def troubles(self) -> Mapping[str, str]:
        with self._lock:
            return self._troubles

    def live(self) -> Verdict:
        with self._lock:
            silent = self._clock.monotonic() - self._turned
            stuck = self._stuck
        if silent > SILENCE_SECONDS:
            return Verdict(False, f"no turn for {silent:.0f} s")
        return Verdict(not stuck, stuck or "turning")

    def readiness(self) -> Verdict:
        with self._lock:
            silent = self._silent()
            away = f"no broker has answered for {silent:.0f} s" if silent > self._away else ""
            why = away or self._not_ready or self._fault
            return Verdict(not why, why or "ready")


def health_app(registry: CollectorRegistry, roles: Iterable[RoleHealth]) -> Handler:
    all_roles = tuple(roles)
    checks: Mapping[str, Callable[[RoleHealth], Verdict]] = {
        "/livez": RoleHealth.live,
        "/readyz": RoleHealth.readiness,
    }

    def answer(path: str, accept: str) -> HttpReply:
        if path == "/metrics":
            encode, media_type = choose_encoder(accept)
            return _answer(200, encode(registry), media_type)
        if path not in checks:
            return _answer(404, b"try /metrics, /livez or /readyz\n")
        check = checks[path]
        verdicts = [check(role) for role in all_roles]
        lines = []
        for role, verdict in zip(all_roles, verdicts, strict=True):
            lines.append(f"{role.name}: {verdict.detail}\n")
            lines += [f"  {plan}: {why}\n" for plan, why in role.troubles.items()]
        status = 200 if all(verdict.well for verdict in verdicts) else 503
        return _answer(status, "".join(lines).encode())

    return answer


def _answer(status: int, body: bytes, media_type: str = "text/plain; charset=utf-8") -> HttpReply:
    headers = ((b"content-type", media_type.encode()), (b"cache-control", b"no-store"))
    return HttpReply(status, body, headers)
