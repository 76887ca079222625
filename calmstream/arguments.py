"""Argument types and option groups that several commands share, and functions that read files."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmstream.common.clock import MAX_INSTANT
from calmstream.common.errors import InvalidInput, PlanError
from calmstream.defaults import default
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.plan.document import read_plan

if TYPE_CHECKING:
    from calmstream.estimators.central.plan import CentralPlan
    from calmstream.producer.device.policy import AcceptedPlan

_DECIMAL = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?", re.ASCII)
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+", re.ASCII)
_DURATION = re.compile(r"(\d+)(s|m|h|d)?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, None: 1}

DEFAULT_METHOD = "noise-aware"  # default method of the local model
MAX_DEVICES = 100_000_000  # most devices that an evaluation draws
MAX_DURATION = 100 * 365 * 86_400  # longest duration in seconds: 100 years


def duration(text: str) -> int:
    """Return the seconds of ``90``, ``90s``, ``5m``, ``1h`` or ``30d``."""
    match = _DURATION.fullmatch(text)
    seconds = int(match[1]) * _SECONDS[match[2]] if match else -1
    if not 0 <= seconds <= MAX_DURATION:
        raise argparse.ArgumentTypeError(
            f"expected a duration such as 90s, 5m, 1h, 30d, at most 100 years, got {text!r}"
        )
    return seconds


def positive_duration(text: str) -> int:
    seconds = duration(text)
    if seconds < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1s, got {text!r}")
    return seconds


def day(text: str) -> tuple[int, int]:
    """Return the first and last second of a day of UTC, or a single second since the epoch."""
    length = 86_399
    try:
        if text.isdecimal():
            start, length = int(text), 0
        else:
            start = int(datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp())
    except ValueError:
        start = -1
    if not 0 <= start <= MAX_INSTANT:
        raise argparse.ArgumentTypeError(
            f"expected a date such as 2026-01-31, or seconds since the epoch, got {text!r}"
        )
    return start, start + length


def guarantee(text: str) -> Guarantee:
    """Return the guarantee ``once`` or ``w-event:W``."""
    kind, _, windows = text.partition(":")
    try:
        return Guarantee(kind, int(windows) if windows else 1)
    except (PlanError, ValueError):
        raise argparse.ArgumentTypeError(f"expected once or w-event:W, got {text!r}") from None


def names(text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise argparse.ArgumentTypeError(f"expected names separated by commas, got {text!r}")
    return parts


def positive(text: str) -> int:
    """Return a whole number of at least 1; underscores and thousands commas are allowed."""
    try:
        number = int(text.replace(",", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return number


def users(text: str) -> tuple[int, ...]:
    """Return numbers of devices: ``20000,200000`` are two, and so are ``20_000,200_000``.

    ``20,000`` is refused: it may be meant as one number.
    """
    found = []
    for part in [""] if _THOUSANDS.fullmatch(text) else text.split(","):
        number = int(part) if part.strip().replace("_", "").isdecimal() else 0
        if not 1 <= number <= MAX_DEVICES:
            raise argparse.ArgumentTypeError(
                f"expected whole numbers from 1 to {MAX_DEVICES:,}, separated by commas and "
                f"written without them, got {text!r}"
            )
        found.append(number)
    return tuple(found)


def decimal(text: str) -> Decimal:
    if not _DECIMAL.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected a decimal number such as 8.5, got {text!r}")
    return Decimal(text)


def below(limit: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = 0.0
        if not 0.0 < found < limit:
            less = "" if math.isinf(limit) else f" and below {limit:g}"
            raise argparse.ArgumentTypeError(f"expected a number above 0{less}, got {text!r}")
        return found

    return number


def read_file(path: str, limit: int = -1) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(limit)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from None


def write_file(path: str, data: bytes) -> None:
    """Write a file with the usual permissions; do not use it for secrets."""
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from None


def load_roots(path: str | None) -> tuple[str, ...]:
    """Return the public keys in a file, one a line; none without a file."""
    if path is None:
        return ()
    from calmstream.producer.signed.keys import read_public_keys

    raw = read_file(path)
    try:
        return read_public_keys(raw.decode())
    except (InvalidInput, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: {error}") from None


def public_key(path: str) -> str:
    found = load_roots(path)
    if len(found) != 1:
        raise InvalidInput(f"{path}: expected one public key, as calmstream keys new writes it")
    return found[0]


def load_plan(path: str) -> Plan:
    """Read the plan in a file, signed or not."""
    return load_accepted(path).plan


def load_accepted(path: str) -> AcceptedPlan:
    """Read a plan as :func:`load_plan`, with what its signer states; any root is accepted."""
    from calmstream.producer.device.policy import AcceptedPlan
    from calmstream.producer.device.read_plan import read_signed_plan
    from calmstream.producer.signed.envelope import is_envelope

    raw = read_file(path)
    with _naming(path):
        if is_envelope(raw):
            return read_signed_plan(raw, None)
        return AcceptedPlan(read_plan(raw), None)


def load_central_plan(path: str) -> CentralPlan:
    from calmstream.estimators.central.plan import read_central_plan

    raw = read_file(path)
    with _naming(path):
        return read_central_plan(raw)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Say in an error about a plan which file it is in."""
    try:
        yield
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None


SHARED: Mapping[str, Mapping[str, Any]] = {
    "--plan": {"required": True, "metavar": "FILE", "help": "the plan document"},
    "--bootstrap": {
        "required": True,
        "metavar": "HOST:PORT",
        "help": "Kafka bootstrap servers, separated by commas",
    },
    "--namespace": {
        "default": "calmstream",
        "help": "first part of the topic names (default: %(default)s)",
    },
    "--output-namespace": {
        "default": "",
        "metavar": "NS",
        "help": "namespace of state, snapshots and dead letters (default: the same one); with "
        "another one, old reports can be counted again without a change of existing results",
    },
    "--roots": {
        "metavar": "FILE",
        "help": "with --plans: public root keys that are trusted, one a line",
    },
    "--allow-unsigned": {
        "action": "store_true",
        "help": "with --plans: take plans without signature too",
    },
    "--windows": {
        "default": "total",
        "metavar": "WINDOWS",
        "help": "total (all windows, the default), current (now), latest, I, I..J, last:N, DATE, "
        "DATE..DATE, 'last 7 days' or last:7d; with a zone: '2026-01-31 Europe/Berlin'",
    },
    "--marginal": {
        "action": "append",
        "metavar": "A,B",
        "help": "only this table (default: all)",
    },
    "--once": {"action": "store_true", "help": "take what is published now and exit"},
    "--json": {"action": "store_true", "help": "print JSON for programs, one object a line"},
    "--http-host": {"help": "address of /metrics, /livez and /readyz (default: 127.0.0.1)"},
    "--http-port": {
        "type": int,
        "help": "port of /metrics, /livez and /readyz (default: 9464); 0: any, -1: none",
    },
    "--log-level": {"choices": ("debug", "info", "warning", "error")},
}
"""Options that several commands have, as `add` declares them."""

TRUST = ("--roots", "--allow-unsigned")
BROKER = ("--bootstrap", "--namespace")
RESULTS = ("--plan", *BROKER, "--output-namespace")
HTTP = ("--http-host", "--http-port", "--log-level")


def add(parser: argparse._ActionsContainer, *names: str, **changes: Any) -> None:
    """Add shared options, whose defaults the environment or ``calmstream.toml`` may state."""
    for name in names:
        option = {**SHARED[name], **changes}
        if (stated := default(name.removeprefix("--"))) is not None:
            option |= {"default": stated, "required": False}
        parser.add_argument(name, **option)


def add_plans(parser: argparse.ArgumentParser, *, watched: bool = True) -> None:
    """Add ``--plan`` or ``--plans``, whose plans a folder may have, and where their topics are."""
    follows = (
        "; it is watched: a plan is taken up when its file appears and given back when it goes"
    )
    chosen = parser.add_mutually_exclusive_group(required=default("plan") is None)
    add(chosen, "--plan", required=False)
    chosen.add_argument(
        "--plans",
        metavar="DIR",
        help=f"folder of plans, *.json, for all of which it works{follows if watched else ''}",
    )
    add(parser, *TRUST, *BROKER, "--output-namespace")


def trust(args: argparse.Namespace) -> dict[str, Any]:
    """Return whose plans a folder may have, as keyword arguments."""
    if args.roots is None and not args.allow_unsigned:
        raise InvalidInput("--roots FILE says whose plans are served; --allow-unsigned needs none")
    return {"roots": load_roots(args.roots), "allow_unsigned": args.allow_unsigned}


def spaces(args: argparse.Namespace) -> dict[str, Any]:
    """Return the namespaces of a plan's topics, as keyword arguments."""
    return {
        "namespace": args.namespace,
        "output_namespace": getattr(args, "output_namespace", ""),
    }
