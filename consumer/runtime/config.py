"""Settings of a tally worker, and of the web server and log of every role."""

from __future__ import annotations

from typing import Literal

from calmstream.common.errors import InvalidInput
from calmstream.common.settings import Settings, bounded, variable


class WorkerConfig(Settings):
    """Settings of every worker of a plan; times in seconds."""

    retry_seconds: float = bounded(60.0, gt=0, le=3600)  # of a failing call, before the worker ends
    # Between two checks that the topics still exist, and two looks at the ends of partitions.
    topic_check_seconds: float = bounded(10.0, fixed=True, gt=0, le=3600)


class TallyConfig(WorkerConfig):
    """Settings of a tally worker; times in seconds."""

    # Between two checkpoints. After a kill the records of at most this time are read again.
    checkpoint_seconds: float = bounded(5.0, gt=0, le=600)
    poll_seconds: float = bounded(0.2, fixed=True, ge=0, le=5)  # maximum wait of one poll
    poll_records: int = bounded(5000, ge=1, le=10_000)  # maximum that one poll returns
    # The session time of the group, after which others take the partitions: a worker that has not
    # polled for this long writes nothing more and exits.
    session_seconds: float = bounded(30.0, gt=0, le=3600)
    stop_seconds: float = bounded(20.0, gt=0, le=600)  # for the last checkpoint and the leaving
    # A worker exits if a partition that is not at its end does not advance, or ticks to it fail,
    # for this long. After half of this time it is unhealthy.
    stall_seconds: float = bounded(120.0, gt=0, le=3600)

    def check(self) -> None:
        """Check that a worker polls often enough for its session."""
        if self.poll_seconds * 2 > self.session_seconds:
            raise InvalidInput(
                f"{variable('session_seconds')} must be at least twice the time of a poll, "
                f"{self.poll_seconds:g} s, not {self.session_seconds:g} s"
            )


class HttpConfig(Settings):
    """Settings of the web server for metrics and health, and of the log."""

    http_host: str = "127.0.0.1"
    http_port: int = bounded(9464, ge=-1, le=65535)  # 0: any free port, -1: no server
    log_level: Literal["debug", "info", "warning", "error"] = "info"
