"""The reporter: it turns a record into one perturbed report, if one is allowed now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from calmstream.common.clock import wall_clock
from calmstream.producer.device import control
from calmstream.producer.device.assignment import place
from calmstream.producer.device.history import (
    Sent,
    appended,
    attribute_names,
    shortened,
    value_fields,
    with_another,
)
from calmstream.producer.device.ledger import DeviceState, status
from calmstream.producer.device.policy import Policy, Status, standing
from calmstream.producer.device.store import DeviceStore
from calmstream.producer.device.totals import Remaining
from calmstream.producer.signed.refusal import PlanRefused, Refusal

if TYPE_CHECKING:
    from calmstream.estimators.plan import Plan
    from calmstream.estimators.randomness import Randomness
    from calmstream.producer.device.report import Report


class Reporter:
    """Turns a device's records into reports within the plan's guarantee and the device's policy.

    Args:
        plan: the envelope of a signed plan; if unsigned plans are allowed, also a plan or its
            document.
        store: keeps the device's secret, ledger and policy; on real devices a
            `FileStore`.
        randomness: the random source of the perturbation; None means the operating system's. Only
            tests set it.
        clock: returns milliseconds since the epoch.
        policy: the application's limits, for an empty store; a store with another policy is an
            error. None means the stored policy, or the strict default if the store has none.
            Applications whose policy may change call `set_policy` before, and give none here.
        allow_unsigned: whether to accept an unsigned plan, for demonstrations and tests. The
            policy's limits apply to it, too.

    Raises:
        PlanRefused: the device does not accept the plan; the ledger is unchanged.
        InvalidInput: the store holds another policy; nothing was written.
        CalmstreamError: the store cannot be read or written.
    """

    def __init__(
        self,
        plan: Plan | bytes,
        store: DeviceStore,
        randomness: Randomness | None = None,
        clock: Callable[[], int] = wall_clock,
        *,
        policy: Policy | None = None,
        allow_unsigned: bool = False,
    ) -> None:
        # The reader of plans, the mechanism of the plan and the encoding are loaded with a plan.
        from calmstream.estimators.randomness import SystemRandomness
        from calmstream.producer.device.read_plan import read_any_plan
        from calmstream.producer.device.report import check_record, perturbed

        self._store = store
        self._perturbed, self._check_record = perturbed, check_record
        self._randomness = randomness or SystemRandomness()
        self._clock = clock
        state = control.install(store, policy)
        roots = _policy(state).roots
        self._accepted = read_any_plan(plan, roots, allow_unsigned=allow_unsigned)
        self._plan = self._accepted.plan
        refused = self._standing(state, clock())
        if refused is not None:
            raise refused

    @property
    def plan(self) -> Plan:
        """The plan to report under."""
        return self._plan

    @property
    def owner(self) -> str:
        """Who answers for the plan, by the certificate or by an unsigned plan's own words."""
        return self._accepted.owner

    def asked(self) -> tuple[str, ...]:
        """Return the names of the attributes that this device is asked about, and no others."""
        where = place(self._plan, self._store.read().secret)
        return self._attributes(where.group, where.view)

    def status(self, now: int | None = None) -> Status:
        """Return whether `report` would report, or why not; the same for every record.

        ``now``, here and below, is in milliseconds since the epoch; None means the clock's time.

        Raises:
            CalmstreamError: the store cannot be read.
        """
        return self._status(self._store.read(), self._clock() if now is None else now)

    def refusal(self, now: int | None = None) -> Refusal | None:
        """Return why the device does not accept the plan now, or None if it accepts it.

        The reason can be a change of the policy or the end of the certificate's validity.

        Raises:
            CalmstreamError: the store cannot be read.
        """
        refused = self._standing(self._store.read(), self._clock() if now is None else now)
        return None if refused is None else refused.reason

    def remaining(self, now: int | None = None) -> Remaining:
        """Return the epsilon that the plan's operator can still spend under the policy.

        Raises:
            CalmstreamError: the store cannot be read.
        """
        return self._remaining(self._store.read(), self._clock() if now is None else now)

    def check(self, record: Mapping[str, object]) -> list[str]:
        """Return what of a record is no value of its attribute, and what would be reported instead.

        For tests and development: a report never says so, and is made whatever the record is. One
        line for each field, in words, without the value.
        """
        return self._check_record(self._plan, record)

    def report(self, record: Mapping[str, object], *, keep: bool = False) -> Report | None:
        """Return the device's report, or None if it must not report now.

        Call it at every start and some times in each window: a call that returns None reads the
        store and writes nothing. The decision depends on the time, the secret and the ledger only,
        so that every record gives a report. A label that is unknown, missing or unreadable counts
        as the attribute's ``other`` label, or as a uniformly random label if there is no ``other``;
        an integer counts as the label with the same digits. Only the attributes that `asked` names
        are read.

        When this method returns a report, the ledger contains it durably: send it, again if need be
        and unchanged, and never make it anew. After an error the ledger is unchanged, and the
        device can report at the next call.

        Args:
            record: the true value of each attribute, by attribute name.
            keep: whether the report waits in the store, from where an `Outbox` delivers it.

        Raises:
            CalmstreamError: the store cannot be read or written; nothing was reported. No content
                of the record causes an error.
        """
        return self.report_for(lambda _: record, keep=keep)

    def report_for(
        self, record: Callable[[int], Mapping[str, object]], *, keep: bool = False
    ) -> Report | None:
        """As `report`; ``record`` makes the record of a window, only when the device may report."""
        now = self._clock()
        state = self._store.read()
        if self._status(state, now) is not Status.READY:
            return None
        where = place(self._plan, state.secret)
        window = self._plan.window_at(now)
        report = self._perturbed(self._plan, where, record(window), window, self._randomness)
        return report if self._claim(report, state.secret, now, keep=keep) else None

    def _claim(self, report: Report, secret: bytes, now: int, *, keep: bool) -> bool:
        """Write a report to ledger and history, durably; return whether that is allowed.

        Another thread or process may have used up the permission since.
        """
        claimed = False

        def claim(state: DeviceState) -> DeviceState:
            nonlocal claimed
            claimed = state.secret == secret and self._status(state, now) is Status.READY
            return self._spend(state, report, now, keep=keep) if claimed else state

        self._store.update(claim)
        return claimed

    def _spend(self, state: DeviceState, report: Report, now: int, *, keep: bool) -> DeviceState:
        plan, root, seconds = self._plan, self._accepted.root, now // 1000
        after = state.spend(plan, report.period, root=root, now=seconds)
        left = self._remaining(after, now)
        encoded = report.encode(plan)
        sent = Sent(
            plan=plan.name,
            digest=plan.digest,
            purpose=shortened(plan.purpose),
            owner=shortened(self._accepted.owner),
            root=root,
            attributes=attribute_names(self._attributes(report.group, report.view)),
            epsilon=plan.epsilon,
            when=seconds,
            remains=f"{left.span:f}",
            remains_ever=None if left.ever is None else f"{left.ever:f}",
            **value_fields(encoded),
        )
        waiting = after.waiting
        if keep:
            waiting = with_another(waiting, plan, report.period, encoded)
        return replace(after, history=appended(after.history, sent), waiting=waiting)

    def _attributes(self, group: int, view: int) -> tuple[str, ...]:
        names = self._plan.domain.names
        return tuple(names[j] for j in self._plan.groups[group].views[view].attributes)

    def _status(self, state: DeviceState, now: int) -> Status:
        if state.withdrawn:
            return Status.WITHDRAWN
        if self._standing(state, now) is not None:
            return Status.REFUSED
        slot = place(self._plan, state.secret).slot
        entries = state.entries(self._plan, signed=bool(self._accepted.root))
        by_ledger = status(self._plan, slot, entries, now)
        if by_ledger is not Status.READY:
            return by_ledger
        root, epsilon = self._accepted.root, self._plan.epsilon
        return state.totals.status(_policy(state), root, epsilon, now // 1000)

    def _standing(self, state: DeviceState, now: int) -> PlanRefused | None:
        present = state.totals.present(now // 1000)
        return standing(self._accepted, _policy(state), present)

    def _remaining(self, state: DeviceState, now: int) -> Remaining:
        return state.totals.remaining(_policy(state), self._accepted.root, now // 1000)


def _policy(state: DeviceState) -> Policy:
    return state.policy or Policy()
