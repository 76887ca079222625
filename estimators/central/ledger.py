"""The ledger of a central plan's privacy budget, of which every release costs an equal part.

A user may be in each release. One is entered *before* anything of it can be published, for good.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from calmstream.common.errors import FatalError
from calmstream.estimators.central.accounting import BOUND
from calmstream.estimators.central.plan import CentralPlan

LEDGER_VERSION = 2


class BudgetSpent(FatalError):  # noqa: N818 - it is a refusal, not a defect
    """A release is refused; nothing of it may be published."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The releases of a plan that were paid for, and whether each is known to be published."""

    plan: CentralPlan
    entries: Mapping[str, bool] = field(default_factory=dict)
    topic: str = ""

    @property
    def spent_share(self) -> float:
        """Spent part of the budget; every release costs the same."""
        return len(self.entries) / self.plan.releases

    def bind(self, topic: str) -> Ledger:
        """Return the ledger, permanently bound to one releases topic."""
        if self.topic and self.topic != topic:
            raise FatalError(
                f"the budget account is for the releases topic with id {self.topic}, and this one "
                f"has id {topic}. The claims that prevent a second release of a window are in the "
                "first one: restore it, or make a new plan for new records"
            )
        return replace(self, topic=topic)

    def pay(self, release: str) -> Ledger:
        """Return the ledger with a release, to be stored before the release is computed."""
        if release in self.entries:
            published = self.entries[release]
            state = "was published" if published else "was begun and may be published"
            raise BudgetSpent(
                f"release {release} {state}; to make it again would cost its budget twice"
            )
        if len(self.entries) >= self.plan.releases:
            raise BudgetSpent(
                f"release {release} is refused: the privacy budget is spent ({self.summary()})"
            )
        return replace(self, entries={**self.entries, release: False})

    def finish(self, release: str) -> Ledger:
        return replace(self, entries={**self.entries, release: True})

    def summary(self) -> str:
        plan, releases = self.plan, len(self.entries)
        spent = plan.method.spend.times(releases)
        shown, other = spent.epsilon(plan.delta), spent.zcdp_epsilon(plan.delta)
        beside = f" ({other:.4g} by zCDP)" if releases else ""
        return f"{releases} releases, epsilon {shown:.4g} of {plan.epsilon}{beside}"

    def to_bytes(self) -> bytes:
        spend = self.plan.method.spend
        cost = {
            "precision": str(spend.precision),
            "quantiles": spend.levels,
            "quantile_epsilon": str(spend.quantile_epsilon),
            "delta": str(spend.delta),
        }
        body: dict[str, Any] = {
            "version": LEDGER_VERSION,
            "plan": self.plan.digest,
            "epsilon": self.plan.epsilon,
            "delta": self.plan.delta,
            "bound": BOUND,
            "topic": self.topic,
            "entries": [
                {"release": release, "published": published} | cost
                for release, published in self.entries.items()
            ],
        }
        document = {**body, "sha256": _checksum(body)}
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2)


def read_ledger(plan: CentralPlan, raw: bytes) -> Ledger:
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
        if document["plan"] != plan.digest:
            raise FatalError(
                f"the budget account belongs to plan {document['plan'][:8]}, not {plan.digest[:8]}"
            )
        # Costs follow from the plan and are not read.
        entries = {entry["release"]: entry["published"] for entry in document["entries"]}
        return Ledger(plan, entries, document["topic"])
    except (KeyError, TypeError, ValueError) as error:
        raise FatalError(f"the budget account is not readable: {error}") from None


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
