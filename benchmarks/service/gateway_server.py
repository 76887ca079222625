"""The servers that ``benchmarks.service.gateway`` compares, each in a process of its own.

python -m benchmarks.service.gateway_server MODE DIRECTORY PORT
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Topics
from calmstream.common.errors import RecoverableError
from calmstream.estimators.plan import Plan
from calmstream.producer.gateway.durable import files
from calmstream.producer.gateway.http.gateway import Environment, Gateway
from calmstream.producer.gateway.http.metrics import GatewayMetrics
from calmstream.producer.gateway.http.settings import GatewaySettings

MODES = {
    "bare": "bare uvicorn",
    "volatile": "gateway, not durable",
    "durable": "gateway, durable",
}


class Appended:
    """A record that was acknowledged at once."""

    def wait(self, timeout: float) -> int:
        return int(timeout * 0)

    def done(self) -> bool:
        return True


class Swallow:
    """A sink that acknowledges everything and keeps nothing."""

    def prepare(self, *_: Any) -> None:
        return

    def send(self, *_: Any, **__: Any) -> Appended:
        return Appended()

    def flush(self, *_: Any) -> None:
        return

    def close(self, *_: Any) -> None:
        return


class Health:
    """Nobody asks."""

    def turned(self) -> None:
        return

    def ready(self) -> None:
        return

    def stuck(self, what: str) -> None:
        print(what)

    def not_ready(self, why: str) -> None:
        print(why)

    def watched(self, _silent_seconds: Any) -> None:
        return


async def bare(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
    """Read the body and answer as the gateway does, without looking at it."""
    if scope["type"] == "http":
        await receive()
        head = [(b"content-type", b"application/json"), (b"content-length", b"76")]
        await send({"type": "http.response.start", "status": 202, "headers": head})
        await send({"type": "http.response.body", "body": b"x" * 76})


def names(plan: Plan) -> TopicNames:
    return TopicNames("bench", plan.name, plan.digest, len(plan.groups), plan.partitions)


def absent() -> Topics:
    """Administer nothing: there is no broker."""
    raise RecoverableError("there is no broker")


def serve(mode: str, directory: Path, port: int) -> None:
    """Serve until the process is ended."""
    if mode == "bare":
        uvicorn.run(bare, port=port, access_log=False, log_level="error", lifespan="off")
        return
    if mode == "volatile":
        files.LogFile.sync = lambda _: None  # type: ignore[method-assign]
    around = Environment(
        spool=directory / f"spool-{mode}",
        plans=directory,
        roots=(),
        allow_unsigned=True,
        app_keys=None,
        connect=Swallow,
        administer=absent,
        names=names,
    )
    metrics = GatewayMetrics(CollectorRegistry())
    Gateway(around, GatewaySettings(port=port), metrics, Health()).run(threading.Event())


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
