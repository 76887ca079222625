"""The application's own limits on the privacy loss of plans, and which plans keep to them.

No plan and no operator changes a policy. ``docs/signed-plans.md`` defines the order of checks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Context, Decimal, Inexact
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from calmstream.common.clock import utc
from calmstream.common.errors import InvalidInput
from calmstream.producer.signed.certificate import KEY, Statement
from calmstream.producer.signed.refusal import PlanRefused, Refusal

if TYPE_CHECKING:
    from calmstream.estimators.plan import Plan

MAX_ROOTS = 64
DAY, MAX_SPAN_DAYS = 86_400, 36_500  # seconds, and about a hundred years
EXACT = Context(prec=100, traps=[Inexact])  # for epsilon: a result that is not exact is an error
_AMOUNT = re.compile(r"(0|[1-9][0-9]{0,8})(\.[0-9]{1,20})?", re.ASCII)


class Status(StrEnum):
    """Whether a device may report now, and if not, why.

    Attributes:
        READY: the device may report.
        WITHDRAWN: the person has withdrawn.
        REFUSED: the device does not accept the plan at present.
        NOT_STARTED: the plan has not started.
        OVER: the plan's last window has ended.
        ALREADY_REPORTED: the plan's guarantee allows no further report yet, or ever.
        NOT_ITS_SLOT: the device reports in other windows than the present one.
        BUDGET_SPENT: a report would exceed the bound of the plan's lineage.
        SPAN_EPSILON: a report would exceed the policy's limit for any ``span_days`` days.
        EVER_EPSILON: a report would exceed the policy's limit for all time.
    """

    READY = "ready"
    WITHDRAWN = "withdrawn"
    REFUSED = "refused"
    NOT_STARTED = "not started"
    OVER = "over"
    ALREADY_REPORTED = "already reported"
    NOT_ITS_SLOT = "not its slot"
    BUDGET_SPENT = "budget spent"
    SPAN_EPSILON = "span epsilon"
    EVER_EPSILON = "ever epsilon"


def amount(text: object) -> Decimal:
    if not isinstance(text, str) or not _AMOUNT.fullmatch(text):
        raise InvalidInput(f'policy: expected a decimal number as a text, "8", got {text!r:.40}')
    return Decimal(text)


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def total(amounts: Collection[Decimal]) -> Decimal:
    result = Decimal(0)
    for each in amounts:
        result = EXACT.add(result, each)
    return result


@dataclass(frozen=True, slots=True)
class Allotment:
    """A part of the policy's limits that is reserved for one root; no other root can spend it.

    Attributes:
        span_epsilon: maximum epsilon of the root's plans together within any ``span_days`` days of
            the policy, decimal string.
        ever_epsilon: maximum epsilon of the root's plans together, without limit of time, decimal
            string; None only if the policy has no such limit.
    """

    span_epsilon: str
    ever_epsilon: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """Limits on the losses of one root, its ``own``, or of all but the ``excluded`` ones."""

    span: Decimal
    ever: Decimal | None
    own: str | None = None
    excluded: Collection[str] = ()

    def apply_to(self, root: str) -> bool:
        return root not in self.excluded if self.own is None else root == self.own


@dataclass(frozen=True)
class Policy:
    """The limits that a device observes, whatever plans it receives.

    Attributes:
        roots: trusted public root keys, 64 hexadecimal digits each.
        report_epsilon: maximum epsilon of one report, decimal string.
        span_epsilon: maximum epsilon of all plans together within any ``span_days``, decimal
            string.
        span_days: length of the span, in days.
        ever_epsilon: maximum epsilon of all plans together, without limit of time, decimal string;
            None means no such limit.
        purposes: the purposes of plans that are accepted, compared exactly; None accepts all.
        allotments: the parts of the limits that are reserved for single roots, by root.

    Raises:
        InvalidInput: a field is malformed or contradicts another.
    """

    roots: Collection[str] = ()
    report_epsilon: str = "4"
    span_epsilon: str = "8"
    span_days: int = 365
    ever_epsilon: str | None = None
    purposes: Collection[str] | None = None
    allotments: Mapping[str, Allotment] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if isinstance(self.roots, str) or isinstance(self.purposes, str):
            raise InvalidInput("policy: roots and purposes are collections of texts, not one text")
        object.__setattr__(self, "roots", tuple(sorted(set(self.roots))))
        if self.purposes is not None:
            object.__setattr__(self, "purposes", tuple(sorted(set(self.purposes))))
        object.__setattr__(self, "allotments", MappingProxyType(dict(self.allotments)))
        self._check()
        self._check_amounts()

    def _check(self) -> None:
        if len(self.roots) > MAX_ROOTS or not all(KEY.fullmatch(root) for root in self.roots):
            raise InvalidInput(
                f"policy.roots: expected at most {MAX_ROOTS} keys of 64 hexadecimal digits"
            )
        if type(self.span_days) is not int or not 1 <= self.span_days <= MAX_SPAN_DAYS:
            raise InvalidInput(f"policy.span_days: expected 1 to {MAX_SPAN_DAYS}")
        if not set(self.allotments) <= set(self.roots):
            raise InvalidInput("policy.allotments: expected allotments of trusted roots only")

    def _check_amounts(self) -> None:
        amount(self.report_epsilon)
        span, ever = self._allotted()
        if span > amount(self.span_epsilon):
            raise InvalidInput("policy: the allotments' span_epsilon sum to more than span_epsilon")
        limited = [a.ever_epsilon is not None for a in self.allotments.values()]
        if self.ever_epsilon is not None and not all(limited):
            raise InvalidInput("policy: every allotment needs an ever_epsilon, as the policy has")
        if self.ever_epsilon is not None and ever > amount(self.ever_epsilon):
            raise InvalidInput("policy: the allotments' ever_epsilon sum to more than ever_epsilon")

    @property
    def span_seconds(self) -> int:
        return self.span_days * DAY

    def _allotted(self) -> tuple[Decimal, Decimal]:
        """Return what all allotments reserve of the span, and ever."""
        taken = self.allotments.values()
        given = [amount(a.ever_epsilon) for a in taken if a.ever_epsilon is not None]
        return total([amount(a.span_epsilon) for a in taken]), total(given)

    @property
    def overall(self) -> PolicyLimits:
        return PolicyLimits(Decimal(self.span_epsilon), _decimal(self.ever_epsilon))

    def limits(self, root: str) -> PolicyLimits:
        """Return the limits of one root; the empty root stands for unsigned plans."""
        own = self.allotments.get(root)
        if own is not None:
            return PolicyLimits(Decimal(own.span_epsilon), _decimal(own.ever_epsilon), own=root)
        every, (span, ever) = self.overall, self._allotted()
        left = None if every.ever is None else EXACT.subtract(every.ever, ever)
        return PolicyLimits(EXACT.subtract(every.span, span), left, excluded=self.allotments)

    def to_json(self) -> dict[str, Any]:
        return {
            "roots": list(self.roots),
            "report_epsilon": self.report_epsilon,
            "span_epsilon": self.span_epsilon,
            "span_days": self.span_days,
            "ever_epsilon": self.ever_epsilon,
            "purposes": None if self.purposes is None else list(self.purposes),
            "allotments": {root: asdict(a) for root, a in self.allotments.items()},
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Policy:
        """Return the policy; raise some error if the document has another form."""
        given = dict(document)
        allotments = {root: Allotment(**a) for root, a in given.pop("allotments").items()}
        return cls(**given, allotments=allotments)


@dataclass(frozen=True, slots=True, eq=False)
class AcceptedPlan:
    """A plan and, if it is signed, the verified statement about its signer, else None."""

    plan: Plan
    statement: Statement | None

    @property
    def root(self) -> str:
        return "" if self.statement is None else self.statement.root

    @property
    def owner(self) -> str:
        return self.plan.owner if self.statement is None else self.statement.owner


def standing(accepted: AcceptedPlan, policy: Policy, present: int) -> PlanRefused | None:
    """Return why the device does not accept a plan at ``present``, in seconds since the epoch."""
    plan, statement = accepted.plan, accepted.statement
    if statement is not None:
        if statement.root not in policy.roots:
            return PlanRefused(Refusal.UNKNOWN_ROOT, "the policy does not name the plan's root")
        if not statement.valid_at(plan.start) or not statement.valid_at(present):
            return PlanRefused(
                Refusal.EXPIRED_CERTIFICATE,
                f"the certificate is valid from {utc(statement.not_before)} to "
                f"{utc(statement.not_after)}; the plan starts at {utc(plan.start)}, now is "
                f"{utc(present)}",
            )
    if policy.purposes is not None and plan.purpose not in policy.purposes:
        return PlanRefused(Refusal.PURPOSE, "the policy does not list the plan's purpose")
    if Decimal(plan.epsilon) > Decimal(policy.report_epsilon):
        return PlanRefused(
            Refusal.REPORT_EPSILON,
            f"a report costs epsilon {plan.epsilon}; the policy allows {policy.report_epsilon}",
        )
    return None
