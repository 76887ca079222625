"""Settings of the service: from arguments first, then ``CALMSTREAM_*`` variables, then defaults.

Names contain the units. Unknown settings are refused, so that a mistyped variable is noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self, TypeVar

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from estimators.errors import InvalidInput

PREFIX = "CALMSTREAM_"


class Settings(BaseSettings):
    """Base of all settings: the prefix, frozen values, and no unknown ones."""

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
        checkpoint_seconds: between two checkpoints; a killed worker's records of this time are
            read again.
        poll_seconds: how long one poll waits for records.
        poll_records: most records of one poll.
        session_seconds: after this time without a poll the worker writes nothing more and exits;
            also the session of its consumer group, after which others take its partitions.
        retry_seconds: how long a failing call is repeated before the worker exits.
        stop_seconds: a stopped worker has checkpointed and left within this time.
        stall_seconds: the worker exits when a partition has not advanced for this time and is not
            at its end, or takes no ticks for this time; it is unhealthy after half of it.
        tick_seconds: least time between two ticks of a partition.
        writes_in_flight: unacknowledged writes above which reading pauses.
        member: static membership of this worker, unique in its group; empty for none.
        topic_check_seconds: between two checks that the topics still exist, and of the ends of the
            owned partitions.
        poison_ratio: part of the last ``poison_records`` records that may be foreign (undecodable,
            of another version or plan) before the worker raises the alarm.
        poison_records: how many records that part is of.
        poison_consecutive: this many foreign records in a row raise the alarm at once.
        poison_stop: whether the alarm stops the worker; otherwise it is a metric and a log line.
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
    """Where metrics and health are served, and how much is logged.

    Attributes:
        http_host: address to bind; loopback by default.
        http_port: 0 for any free one, -1 for no server at all.
        log_level: debug, info, warning or error.
    """

    http_host: str = "127.0.0.1"
    http_port: int = Field(9464, ge=-1, le=65535)
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$")


S = TypeVar("S", bound=BaseSettings)


def load(kind: type[S], **arguments: Any) -> S:
    """Return settings from arguments (those that are not None), the environment and defaults.

    Arguments have the names of the command's options, with ``_`` for ``-``.

    Raises:
        InvalidInput: a setting is unknown or out of range. The line names the first one by its
            option or variable, and never contains its value.
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
    """Check that every ``CALMSTREAM_*`` variable is a known one.

    Raises:
        InvalidInput: the first unknown one; never its value.
    """
    allowed = set(known)
    for name in sorted(environ):
        if name.upper().startswith(PREFIX) and name.upper() not in allowed:
            raise InvalidInput(f"unknown environment variable {name}")
