"""Settings of a tally worker, and of the web server and log of every role."""

from __future__ import annotations

from typing import Literal

from calmstream.common.errors import InvalidInput
from calmstream.common.settings import Settings, bounded, variable


class WorkerConfig(Settings):
    """Settings of every worker of a plan.

    Attributes:
        retry_seconds: time for which a failing call is repeated before the worker exits.
        topic_check_seconds: time between two checks that the topics still exist; a tally worker
            also asks that often for the log ends of its partitions.
    """

    retry_seconds: float = bounded(60.0, gt=0, le=3600)
    topic_check_seconds: float = bounded(10.0, fixed=True, gt=0, le=3600)


class TallyConfig(WorkerConfig):
    """Settings of a tally worker.

    Attributes:
        checkpoint_seconds: time between two checkpoints. After a worker was killed, the records of
            at most this time are read again.
        poll_seconds: maximum time for which one poll waits for records.
        poll_records: maximum number of records that one poll returns.
        session_seconds: a worker that has not polled for this long writes nothing more and exits.
            It is also the session time of the consumer group, after which other workers take the
            partitions.
        stop_seconds: maximum time in which a stopped worker writes its checkpoint and leaves the
            group.
        stall_seconds: the worker exits if a partition is not at its end and has not advanced for
            this long, or if ticks to it have failed for this long. After half of this time it is
            unhealthy.
    """

    checkpoint_seconds: float = bounded(5.0, gt=0, le=600)
    poll_seconds: float = bounded(0.2, fixed=True, ge=0, le=5)
    poll_records: int = bounded(5000, ge=1, le=10_000)
    session_seconds: float = bounded(30.0, gt=0, le=3600)
    stop_seconds: float = bounded(20.0, gt=0, le=600)
    stall_seconds: float = bounded(120.0, gt=0, le=3600)

    def check(self) -> None:
        """Check that a worker polls often enough for its session."""
        if self.poll_seconds * 2 > self.session_seconds:
            raise InvalidInput(
                f"{variable('session_seconds')} must be at least twice the time of a poll, "
                f"{self.poll_seconds:g} s, not {self.session_seconds:g} s"
            )


class HttpConfig(Settings):
    """Settings of the web server for metrics and health, and of the log.

    Attributes:
        http_host: address on which the server listens; by default the loopback address.
        http_port: port of the server; 0 means any free port, -1 means no server.
        log_level: minimum level of the log lines.
    """

    http_host: str = "127.0.0.1"
    http_port: int = bounded(9464, ge=-1, le=65535)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
