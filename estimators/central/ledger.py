"""The ledger of a central plan's privacy budget, whose costs add up: a user may be in each release.

A cost is entered *before* anything of the release can be published, and never refunded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import orjson

from calmstream.common.errors import FatalError
from calmstream.estimators.central.accounting import BOUND, NOTHING, Spend

LEDGER_VERSION = 2


class BudgetSpent(FatalError):  # noqa: N818 - it is a refusal, not a defect
    """A release is refused; nothing of it may be published."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The cost of one release, which counts whether or not it is known to be published."""

    cost: Spend
    published: bool = False


@dataclass(frozen=True, slots=True)
class Ledger:
    """The account of all privacy costs under one plan, by release."""

    plan: str
    epsilon: str
    delta: str
    entries: Mapping[str, LedgerEntry] = field(default_factory=dict)
    topic: str = ""

    @property
    def spent(self) -> Spend:
        return sum((entry.cost for entry in self.entries.values()), NOTHING)

    @property
    def spent_share(self) -> float:
        """Spent part of the budget; every release charges the same part of delta."""
        # Thresholds have half of delta; `allocate` gives each release an equal part of that half.
        return float(2 * self.spent.delta / Fraction(self.delta))

    def bind(self, topic: str) -> Ledger:
        """Return the ledger, permanently bound to one releases topic."""
        if self.topic and self.topic != topic:
            raise FatalError(
                f"the budget account is for the releases topic with id {self.topic}, and this one "
                f"has id {topic}. The claims that prevent a second release of a window are in the "
                "first one: restore it, or make a new plan for new records"
            )
        return replace(self, topic=topic)

    def pay(self, release: str, cost: Spend) -> Ledger:
        """Return the ledger with a release's cost, to be stored before the release is computed."""
        if before := self.entries.get(release):
            state = "was published" if before.published else "was begun and may be published"
            raise BudgetSpent(
                f"release {release} {state}; to make it again would cost its budget twice"
            )
        if not (self.spent + cost).fits(self.epsilon, self.delta):
            raise BudgetSpent(
                f"release {release} is refused: the privacy budget is spent ({self.summary()})"
            )
        return replace(self, entries={**self.entries, release: LedgerEntry(cost)})

    def finish(self, release: str) -> Ledger:
        done = replace(self.entries[release], published=True)
        return replace(self, entries={**self.entries, release: done})

    def summary(self) -> str:
        spent = self.spent
        shown, other = spent.epsilon(self.delta), spent.zcdp_epsilon(self.delta)
        beside = f" ({other:.4g} by zCDP)" if self.entries else ""
        return f"{len(self.entries)} releases, epsilon {shown:.4g} of {self.epsilon}{beside}"

    def to_bytes(self) -> bytes:
        body: dict[str, Any] = {
            "version": LEDGER_VERSION,
            "plan": self.plan,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "bound": BOUND,
            "topic": self.topic,
            "entries": [
                {
                    "release": release,
                    "precision": str(entry.cost.precision),
                    "quantiles": entry.cost.levels,
                    "quantile_epsilon": str(entry.cost.quantile_epsilon),
                    "delta": str(entry.cost.delta),
                    "published": entry.published,
                }
                for release, entry in self.entries.items()
            ],
        }
        document = {**body, "sha256": _checksum(body)}
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2)


def read_ledger(raw: bytes) -> Ledger:
    """Read what :meth:`Ledger.to_bytes` wrote."""
    try:
        document = orjson.loads(raw)
        if document["version"] != LEDGER_VERSION:
            raise FatalError(
                f"the budget account has version {document['version']!r}; this release reads "
                f"{LEDGER_VERSION}"
            )
        if document.pop("sha256") != _checksum(document):
            raise FatalError("the budget account is damaged: its checksum does not match")
        entries = {entry["release"]: _entry(entry) for entry in document["entries"]}
        return Ledger(
            document["plan"], document["epsilon"], document["delta"], entries, document["topic"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FatalError(f"the budget account is not readable: {error}") from None


def _entry(entry: dict[str, Any]) -> LedgerEntry:
    precision, epsilon, delta = (
        Fraction(entry[name]) for name in ("precision", "quantile_epsilon", "delta")
    )
    return LedgerEntry(Spend(precision, entry["quantiles"], epsilon, delta), entry["published"])


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
