"""The privacy budget as a ledger: pure arithmetic and a checked document; files are elsewhere.

Cost adds over the releases that a user's records can be in. A release is paid for *before* anything
of it can leave and is never paid back: an entry that was begun and not finished counts in full, and
the same release is never made twice, because fresh noise on the same records costs again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import orjson

from estimators.central.accounting import Spend, epsilon_of, whole_budget
from estimators.errors import FatalError, PlanError

LEDGER_VERSION = 2
"""Of an account that is bound to a topic; earlier software, which knows no claims, refuses it."""

UNBOUND_VERSION = 1


class BudgetSpent(FatalError):  # noqa: N818 - it is a verdict, not a defect
    """A release is refused; nothing of it may leave."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One release.

    Attributes:
        release: its name within the plan, such as the window's number.
        cost: what it costs at most.
        published: whether it is known to have left; it is paid for either way.
    """

    release: str
    cost: Spend
    published: bool = False


@dataclass(frozen=True, slots=True)
class Ledger:
    """All that was ever spent under one plan.

    Attributes:
        plan: digest of the plan.
        epsilon, delta: the whole budget, decimal strings.
        entries: in the order of payment.
        topic: id of the releases topic that the account is for; "" before its first use.
    """

    plan: str
    epsilon: str
    delta: str
    entries: tuple[Entry, ...] = ()
    topic: str = ""

    @property
    def budget(self) -> Spend:
        """The whole budget."""
        return whole_budget(self.epsilon, self.delta)

    @property
    def spent(self) -> Spend:
        """Sum over all entries, finished or not."""
        return sum((entry.cost for entry in self.entries), Spend(Fraction(0), Fraction(0)))

    def bind(self, topic: str) -> Ledger:
        """Return the ledger as that of one releases topic, for good.

        Args:
            topic: the topic's id, which another topic of the same name does not have.

        Raises:
            FatalError: it is bound to another one.
        """
        if self.topic and self.topic != topic:
            raise FatalError(
                f"the budget account is for the releases topic with id {self.topic}, and this one "
                f"has id {topic}: the claims that keep a window from being released twice are in "
                "the first one; bring it back, or make a new plan for new records"
            )
        return replace(self, topic=topic)

    def pay(self, release: str, cost: Spend) -> Ledger:
        """Return the ledger with the release paid for; store it before the release is computed.

        Raises:
            BudgetSpent: it was paid for before, or the budget does not cover it.
        """
        for entry in self.entries:
            if entry.release == release:
                how = "was published" if entry.published else "was begun and may have left"
                raise BudgetSpent(
                    f"release {release} {how}; making it again would spend its budget twice"
                )
        after = self.spent + cost
        if not after.fits(self.budget):
            raise BudgetSpent(
                f"release {release} is refused: the privacy budget is spent ({self.summary()})"
            )
        return replace(self, entries=(*self.entries, Entry(release, cost)))

    def finish(self, release: str) -> Ledger:
        """Return the ledger with the release marked as published; what is spent stays.

        Raises:
            ValueError: it was never paid for.
        """
        if release not in {entry.release for entry in self.entries}:
            raise ValueError(f"release {release} was never paid for")
        entries = (
            replace(entry, published=True) if entry.release == release else entry
            for entry in self.entries
        )
        return replace(self, entries=tuple(entries))

    def summary(self) -> str:
        """Return what is spent, as one line of text."""
        spent = self.spent
        shown = f"{float(epsilon_of(spent.rho, self.delta)):.4g}" if spent.rho else "0"
        return (
            f"{len(self.entries)} releases, epsilon {shown} of {self.epsilon}, "
            f"rho {float(spent.rho):.4g} of {float(self.budget.rho):.4g}"
        )

    def to_bytes(self) -> bytes:
        """Return a JSON document with its own SHA-256."""
        body: dict[str, Any] = {
            "version": LEDGER_VERSION if self.topic else UNBOUND_VERSION,
            "plan": self.plan,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "entries": [
                {
                    "release": entry.release,
                    "rho": str(entry.cost.rho),
                    "delta": str(entry.cost.delta),
                    "published": entry.published,
                }
                for entry in self.entries
            ],
        }
        if self.topic:
            body["topic"] = self.topic
        document = {**body, "sha256": _checksum(body)}
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2)


def read_ledger(raw: bytes) -> Ledger:
    """Read what :meth:`Ledger.to_bytes` wrote.

    Raises:
        FatalError: anything but an undamaged ledger of this version: nothing may be released.
    """
    try:
        document = orjson.loads(raw)
        if document["version"] not in (UNBOUND_VERSION, LEDGER_VERSION):
            raise FatalError(
                f"the budget account has version {document['version']!r}; this release reads "
                f"{UNBOUND_VERSION} and {LEDGER_VERSION}"
            )
        topic = _topic(document)
        body = {name: value for name, value in document.items() if name != "sha256"}
        if document["sha256"] != _checksum(body):
            raise FatalError("the budget account is damaged: its checksum does not match")
        entries = tuple(_entry(entry) for entry in document["entries"])
        ledger = Ledger(document["plan"], document["epsilon"], document["delta"], entries, topic)
        ledger.budget  # noqa: B018 - validates epsilon and delta
    except (KeyError, TypeError, ValueError, ZeroDivisionError, PlanError) as error:
        raise FatalError(f"the budget account is not readable: {error}") from None
    return ledger


def _entry(document: Any) -> Entry:
    cost = Spend(Fraction(document["rho"]), Fraction(document["delta"]))
    if cost.rho < 0 or cost.delta < 0 or not isinstance(document["published"], bool):
        raise ValueError("an entry is out of range")
    return Entry(str(document["release"]), cost, document["published"])


def _topic(document: dict[str, Any]) -> str:
    topic = document.get("topic", "")
    if not isinstance(topic, str) or bool(topic) != (document["version"] == LEDGER_VERSION):
        raise ValueError(f"an account of version {document['version']} and the topic {topic!r}")
    return topic


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
