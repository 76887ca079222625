"""The reports that a device keeps: a history for the person, and those that wait for a gateway."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from calmstream.estimators.plan import Plan

# All limits of this module keep the history, and so the device's file, small.
MAX_SENT = 200  # reports; the privacy loss of older ones stays in the ledger
MAX_HISTORY_BYTES = 256 << 10  # as JSON
MAX_VALUE_BYTES = 4096  # of a larger report the history keeps only the SHA-256
MAX_TEXT = 500  # characters of a text that comes from a plan
MAX_ATTRIBUTES = 64  # of one entry
MAX_WAITING, MAX_CHARACTERS = 64, 4 << 20  # of reports that wait; the oldest are given up


@dataclass(frozen=True, slots=True)
class Sent:
    """One report that left the device.

    Attributes:
        plan: name of the plan.
        digest: digest of the plan, 64 hexadecimal digits.
        purpose: purpose that the plan states, at most 500 characters; a longer text is cut and
            ends with "…".
        owner: party responsible for the plan, from the certificate or from an unsigned plan itself.
        root: root key of the plan's certificate; empty for an unsigned plan.
        attributes: names of the attributes that the report is about, at most 64; if there are
            more, the last entry is "…".
        value: the perturbed report as it left, as JSON; empty if it has more than 4,096 bytes.
            ``decoded(reporter.plan, sent.value.encode())`` puts it into words.
        value_bytes: length of the report in bytes.
        value_sha256: SHA-256 of the report, hexadecimal.
        epsilon: privacy loss of the report, decimal string.
        when: time of the report by the device's clock, seconds since the epoch.
        remains: epsilon that the operator with this root key could still spend after this report
            within the policy's ``span_days``, decimal string. All unsigned plans count as one
            operator.
        remains_ever: epsilon that this operator could still spend in total, without limit of time,
            decimal string; None if the policy has no such limit.
    """

    plan: str
    digest: str
    purpose: str
    owner: str
    root: str
    attributes: tuple[str, ...]
    value: str
    value_bytes: int
    value_sha256: str
    epsilon: str
    when: int
    remains: str
    remains_ever: str | None


def value_fields(raw: bytes) -> dict[str, Any]:
    short = len(raw) <= MAX_VALUE_BYTES
    return {
        "value": raw.decode() if short else "",
        "value_bytes": len(raw),
        "value_sha256": hashlib.sha256(raw).hexdigest(),
    }


def shortened(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def attribute_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return at most 64 names, shortened; a last entry ``…`` says that there are more."""
    every = [shortened(name) for name in names]
    return tuple(every if len(every) <= MAX_ATTRIBUTES else [*every[: MAX_ATTRIBUTES - 1], "…"])


def appended(history: tuple[Sent, ...], sent: Sent) -> tuple[Sent, ...]:
    """Return the history with one more report, which always stays, within the limits."""
    kept = [*history, sent][-MAX_SENT:]
    sizes = [len(orjson.dumps(each)) for each in kept]
    excess, first = sum(sizes) - MAX_HISTORY_BYTES, 0
    # Reports are dropped from the oldest on, up to the index ``first``.
    while excess > 0 and first < len(kept) - 1:
        excess -= sizes[first]
        first += 1
    return tuple(kept[first:])


@dataclass(frozen=True, slots=True)
class WaitingReport:
    """A report as it leaves, one ``id`` for all attempts; after ``until`` (ms) it is too late."""

    id: str
    digest: str
    report: str
    until: int


def with_another(
    waiting: tuple[WaitingReport, ...], plan: Plan, period: int, encoded: bytes
) -> tuple[WaitingReport, ...]:
    # Half of the grace is the gateway's, for its own way to the log.
    until = plan.window_end(period) + 500 * plan.grace
    new = WaitingReport(secrets.token_hex(16), plan.digest, encoded.decode(), until)
    kept = [*waiting, new][-MAX_WAITING:]
    while len(kept) > 1 and sum(len(each.report) for each in kept) > MAX_CHARACTERS:
        del kept[0]
    return tuple(kept)
