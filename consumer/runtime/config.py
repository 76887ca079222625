"""Settings of the service, from arguments, environment variables ``CALMSTREAM_*``, or defaults.

An argument has priority over a variable. The names of settings contain their units. An unknown
setting is an error, so that a mistyped variable is noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self, TypeVar

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from estimators.errors import InvalidInput

PREFIX = "CALMSTREAM_"


class Settings(BaseSettings):
    """Base of all settings: variables have the prefix, values are frozen, unknown names refused."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    def redacted(self) -> dict[str, Any]:
        """Return the values for a log, with secrets replaced by stars."""
        return {
            name: "***" if isinstance(value, SecretStr) else value
            for name, value in self.model_dump().items()
        }


class TallyConfig(Settings):
    """Settings of a tally worker.

    Attributes:
        checkpoint_seconds: time between two checkpoints. After a worker was killed, the records of
            at most this time are read again.
        poll_seconds: maximum time for which one poll waits for records.
        poll_records: maximum number of records that one poll returns.
        session_seconds: a worker that has not polled for this long writes nothing more and exits.
            It is also the session time of the consumer group, after which other workers take the
            partitions.
        retry_seconds: time for which a failing call is repeated before the worker exits.
        stop_seconds: maximum time in which a stopped worker writes its checkpoint and leaves the
            group.
        stall_seconds: the worker exits if a partition is not at its end and has not advanced for
            this long, or if ticks to it have failed for this long. After half of this time it is
            unhealthy.
        tick_seconds: minimum time between two ticks of a partition. A tick is a record without
            reports that advances the time of an idle partition.
        writes_in_flight: maximum number of unacknowledged writes; above it, reading pauses.
        member: name of this worker's static membership, unique in its group; empty for a dynamic
            membership.
        topic_check_seconds: time between two checks that the topics still exist, and between two
            requests for the log ends of the owned partitions.
        poison_ratio: share of foreign records (undecodable, or of another version or plan) among
            the last ``poison_records`` records that raises an alarm.
        poison_records: number of records over which ``poison_ratio`` is computed.
        poison_consecutive: number of foreign records in a row that raises an alarm at once.
        poison_stop: whether an alarm stops the worker; otherwise it is a metric and a log line.
    """

    checkpoint_seconds: float = Field(5.0, gt=0, le=600)
    poll_seconds: float = Field(0.2, ge=0, le=5)
    poll_records: int = Field(500, ge=1, le=10_000)
    session_seconds: float = Field(30.0, gt=0, le=3600)
    retry_seconds: float = Field(60.0, gt=0, le=3600)
    stop_seconds: float = Field(20.0, gt=0, le=600)
    stall_seconds: float = Field(120.0, gt=0, le=3600)
    tick_seconds: float = Field(1.0, ge=1, le=60)
    writes_in_flight: int = Field(2000, ge=1, le=100_000)
    member: str = Field("", max_length=128)
    topic_check_seconds: float = Field(10.0, gt=0, le=3600)
    poison_ratio: float = Field(0.5, gt=0, le=1)
    poison_records: int = Field(200, ge=1, le=100_000)
    poison_consecutive: int = Field(100, ge=1, le=1_000_000)
    poison_stop: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.poll_seconds * 2 > self.session_seconds:
            raise ValueError(
                f"{variable('poll_seconds')} may be at most half of {variable('session_seconds')}: "
                f"{self.poll_seconds:g} and {self.session_seconds:g} s"
            )
        return self


class HttpConfig(Settings):
    """Settings of the web server for metrics and health, and of the log.

    Attributes:
        http_host: address on which the server listens; by default the loopback address.
        http_port: port of the server; 0 means any free port, -1 means no server.
        log_level: minimum level of the log lines: debug, info, warning or error.
    """

    http_host: str = "127.0.0.1"
    http_port: int = Field(9464, ge=-1, le=65535)
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$")


S = TypeVar("S", bound=BaseSettings)


def load(kind: type[S], **arguments: Any) -> S:
    """Return settings from arguments, the environment and defaults.

    Args:
        kind: the class of the settings.
        **arguments: values by the names of the command's options, with ``_`` for ``-``; None means
            that the option is not given.

    Raises:
        InvalidInput: a setting is unknown or out of range. The message names the option or the
            variable, and never contains its value.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    try:
        return kind(**given)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        if not first["loc"]:
            # A rule over several settings; its message names them.
            raise InvalidInput(str(first["ctx"]["error"])) from None
        name = str(first["loc"][0])
        where = f"--{name.replace('_', '-')}" if name in given else variable(name)
        raise InvalidInput(f"{where}: {first['msg']}") from None


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


def variables(*kinds: type[Settings]) -> set[str]:
    """Return the environment variables that these settings read."""
    return {variable(name) for kind in kinds for name in kind.model_fields}


def refuse_unknown(environ: Mapping[str, str], known: Iterable[str]) -> None:
    """Check that every ``CALMSTREAM_*`` variable is known.

    Args:
        environ: the environment variables of the process.
        known: names of the allowed variables.

    Raises:
        InvalidInput: a variable is unknown; the message contains its name, never its value.
    """
    allowed = set(known)
    for name in sorted(environ):
        if name.upper().startswith(PREFIX) and name.upper() not in allowed:
            raise InvalidInput(f"unknown environment variable {name}")
