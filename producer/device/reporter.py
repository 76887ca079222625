"""Turns a device's record into one perturbed report, or into none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broker.clock import wall_clock
from estimators.errors import FatalError, Rejection
from estimators.mechanisms.base import Reports
from estimators.plan import Plan
from estimators.randomness import Randomness, SystemRandomness, uniform_below
from estimators.wire.batch import decode_report
from producer.device import control
from producer.device.acceptance import read_any_plan, standing
from producer.device.assignment import Place, place
from producer.device.encoding import encode_reports
from producer.device.history import Sent, appended, attribute_names, shortened, value_fields
from producer.device.ledger import DeviceState, status
from producer.device.policy import Policy
from producer.device.status import Status
from producer.device.store import DeviceStore
from producer.device.totals import Remaining
from producer.signed.refusal import PlanRefused, Refusal


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """A perturbed report; it can be sent again unchanged.

    Attributes:
        group: index of the device's group.
        period: number of the window: time truncated to it.
        view: index of the device's view within the group.
        columns: the mechanism's columns, each with first axis 1, read-only.
    """

    group: int
    period: int
    view: int
    columns: Reports

    def encode(self, plan: Plan) -> bytes:
        """Return the report as a batch of one, the form in which devices send it to a gateway."""
        view = np.array([self.view], np.int64)
        return encode_reports(plan, self.group, self.period, view, self.columns)

    @classmethod
    def decode(cls, plan: Plan, raw: bytes) -> Report:
        """Decode a report, for a gateway that receives reports from devices.

        A :class:`producer.gateway.batcher.Batcher` of the same plan takes what this returns, and
        a worker never refuses it except for time.

        Args:
            plan: the plan that the report must follow, of any version.
            raw: any bytes.

        Raises:
            Rejection: with the reason that a worker would give; no other error for any bytes.
        """
        group, batch = decode_report(plan, raw)
        view = 0 if batch.view is None else int(batch.view[0])
        return cls(group, batch.period, view, _frozen(batch.columns))


class Reporter:
    """Turns a device's records into reports within the plan's guarantee and the device's policy.

    Args:
        plan: the envelope of a signed plan; where unsigned plans are allowed, also a plan or its
            document.
        store: keeps the device's secret, ledger and policy; use a
            :class:`producer.device.store.FileStore`.
        randomness: perturbs; set it in tests only.
        clock: milliseconds since the epoch.
        policy: what the application allows; written into the store at first use. None takes the
            stored one, or the strict default.
        allow_unsigned: take a plan that nobody signed: for demonstrations and tests. The policy's
            limits hold for it too.

    Raises:
        PlanRefused: the device does not accept the plan; the ledger stays as it was.
        InvalidInput: the store holds another policy.
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
        self._store = store
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
        """The plan that asks."""
        return self._plan

    def status(self, now: int | None = None) -> Status:
        """Return whether :meth:`report` would report, or why not; the same for every record.

        Args:
            now: milliseconds since the epoch; the clock's time by default.

        Raises:
            CalmstreamError: the store cannot be read.
        """
        return self._status(self._store.read(), self._clock() if now is None else now)

    def refusal(self, now: int | None = None) -> Refusal | None:
        """Return why the device does not accept the plan now; None where it does.

        Another policy or the end of the certificate can bring that about.

        Args:
            now: milliseconds since the epoch; the clock's time by default.

        Raises:
            CalmstreamError: the store cannot be read.
        """
        refused = self._standing(self._store.read(), self._clock() if now is None else now)
        return None if refused is None else refused.reason

    def remaining(self, now: int | None = None) -> Remaining:
        """Return what the plan's operator can still spend under the policy.

        Args:
            now: milliseconds since the epoch; the clock's time by default.

        Raises:
            CalmstreamError: the store cannot be read.
        """
        return self._remaining(self._store.read(), self._clock() if now is None else now)

    def history(self) -> tuple[Sent, ...]:
        """Return the latest reports of this device under all plans, oldest first."""
        return control.history(self._store)

    def withdraw(self) -> None:
        """Stop all reports of this device under all plans, until :meth:`rejoin`."""
        control.withdraw(self._store)

    def rejoin(self) -> None:
        """Allow reports again; what was spent stays spent."""
        control.rejoin(self._store)

    def report(self, record: Mapping[str, object]) -> Report | None:
        """Return the device's report, or None when it must not report now.

        This decision depends on time, secret and ledger only, and is made before the record is
        read. Every record gives a report: a label that is unknown, missing or unreadable
        counts as the attribute's ``other`` label, or as a uniformly random one where it has none;
        an integer is read as the label with its digits. Only attributes of the device's own view
        are read, and integers of numpy count as Python's own.

        The ledger is written last, when nothing else can fail. A failure before that leaves the
        ledger as it was, and the device reports at the next call. When this returns a report, the
        ledger already says durably that it was made. A report lost between here and the broker is
        lost; it must be resent unchanged, never drawn again.

        Raises:
            CalmstreamError: the store cannot be read or written; nothing was reported. Never
                because of the record.
        """
        now = self._clock()
        state = self._store.read()
        if self._status(state, now) is not Status.READY:
            return None
        where = place(self._plan, state.secret)
        report = self._checked(self._perturb(record, where, self._plan.window_at(now)))
        return report if self._claim(report, state.secret, now) else None

    def _claim(self, report: Report, secret: bytes, now: int) -> bool:
        """Write a report to ledger and history, durably; return False if another came first."""
        claimed = False

        def claim(state: DeviceState) -> DeviceState:
            nonlocal claimed
            claimed = state.secret == secret and self._status(state, now) is Status.READY
            return self._spend(state, report, now) if claimed else state

        self._store.update(claim)
        return claimed

    def _spend(self, state: DeviceState, report: Report, now: int) -> DeviceState:
        plan, root, seconds = self._plan, self._accepted.root, now // 1000
        after = state.spend(plan, report.period, root=root, now=seconds)
        left = self._remaining(after, now)
        names = plan.domain.names
        view = plan.groups[report.group].views[report.view]
        sent = Sent(
            plan=plan.name,
            digest=plan.digest,
            purpose=shortened(plan.purpose),
            owner=shortened(self._accepted.owner),
            root=root,
            attributes=attribute_names(names[j] for j in view.attributes),
            epsilon=plan.epsilon,
            when=seconds,
            remains=f"{left.span:f}",
            remains_ever=None if left.ever is None else f"{left.ever:f}",
            **value_fields(report.encode(plan)),
        )
        return replace(after, history=appended(after.history, sent))

    def _checked(self, report: Report) -> Report:
        """Return the report if a gateway can read it.

        Raises:
            FatalError: it cannot, because of a defect or of a plan that a device should refuse.
        """
        try:
            Report.decode(self._plan, report.encode(self._plan))
        except Rejection as error:
            raise FatalError(
                f"plan {self._plan.name}: no gateway reads a report of it ({error}); nothing was "
                "reported: read plans with read_device_plan"
            ) from None
        return report

    def _status(self, state: DeviceState, now: int) -> Status:
        if state.withdrawn:
            return Status.WITHDRAWN
        if self._standing(state, now) is not None:
            return Status.REFUSED
        slot = place(self._plan, state.secret).slot
        entries = state.entries(self._plan, signed=bool(self._accepted.root))
        found = status(self._plan, slot, entries, now)
        if found is not Status.READY:
            return found
        root, epsilon = self._accepted.root, self._plan.epsilon
        return state.totals.status(_policy(state), root, epsilon, now // 1000)

    def _standing(self, state: DeviceState, now: int) -> PlanRefused | None:
        present = state.totals.present(now // 1000)
        return standing(self._accepted, _policy(state), present)

    def _remaining(self, state: DeviceState, now: int) -> Remaining:
        return state.totals.remaining(_policy(state), self._accepted.root, now // 1000)

    def _perturb(self, record: Mapping[str, object], where: Place, window: int) -> Report:
        view = self._plan.groups[where.group].views[where.view]
        codes = np.zeros((1, len(self._plan.domain)), np.uint16)
        for j in view.attributes:
            codes[0, j] = self._code(record, j)
        inputs = view.inputs(codes, self._plan.domain)
        columns = self._plan.mechanisms[where.group].perturb(inputs, self._randomness)
        return Report(where.group, window, where.view, _frozen(columns))

    def _code(self, record: Mapping[str, object], j: int) -> int:
        """Return the code of attribute j; defined for every record."""
        attribute = self._plan.domain.attributes[j]
        try:
            code = self._plan.domain.code(j, record[attribute.name])
        except Exception:  # noqa: BLE001 - foreign mappings and labels may raise anything
            code = attribute.other
        if code is None:
            return int(uniform_below(attribute.cardinality, 1, self._randomness)[0])
        return code


def _policy(state: DeviceState) -> Policy:
    """The policy in force: the strict default where the store has none."""
    return state.policy or Policy()


def _frozen(columns: Mapping[str, NDArray[Any]]) -> Reports:
    for column in columns.values():
        column.flags.writeable = False
    return columns
