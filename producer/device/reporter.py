"""The reporter: it turns a device's record into one perturbed report, if a report is allowed now.

The record is perturbed on the device, so that nobody else ever sees the true record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.common.clock import wall_clock
from calmstream.common.errors import FatalError, Rejection
from calmstream.estimators.mechanisms.base import Reports
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import Randomness, SystemRandomness, uniform_below
from calmstream.estimators.wire.batch import decode_report
from calmstream.producer.device import control
from calmstream.producer.device.acceptance import read_any_plan, standing
from calmstream.producer.device.assignment import Place, place
from calmstream.producer.device.encoding import encode_reports
from calmstream.producer.device.history import (
    Sent,
    appended,
    attribute_names,
    shortened,
    value_fields,
)
from calmstream.producer.device.ledger import DeviceState, status
from calmstream.producer.device.policy import Policy
from calmstream.producer.device.status import Status
from calmstream.producer.device.store import DeviceStore
from calmstream.producer.device.totals import Remaining
from calmstream.producer.signed.refusal import PlanRefused, Refusal


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """A perturbed report. It may be sent several times, always unchanged.

    Attributes:
        group: index of the device's group.
        period: number of the report's window. A report states no exact time.
        view: index of the device's view within the group: the attributes that it is about.
        columns: the mechanism's columns, each with a first axis of length 1, read-only.
    """

    group: int
    period: int
    view: int
    columns: Reports

    def encode(self, plan: Plan) -> bytes:
        """Return the report as a batch of one report, the form in which devices send it."""
        view = np.array([self.view], np.int64)
        return encode_reports(plan, self.group, self.period, view, self.columns)

    @classmethod
    def decode(cls, plan: Plan, raw: bytes) -> Report:
        """Decode a report, for a gateway that receives reports from devices.

        A `Batcher` of the same plan accepts every report that this
        returns. A tally worker can reject it only because it is too late or too early.

        Args:
            plan: the plan that the report must follow, of any version.
            raw: the bytes that a device sent; any bytes.

        Raises:
            Rejection: the bytes are not a report of this plan; the reason is the one that a worker
                would give. There is no other error for any bytes.
        """
        group, batch = decode_report(plan, raw)
        view = 0 if batch.view is None else int(batch.view[0])
        return cls(group, batch.period, view, _frozen(batch.columns))


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
        policy: the application's limits, written into the store at first use. None means the
            stored policy, or the strict default if the store has none.
        allow_unsigned: whether to accept an unsigned plan, for demonstrations and tests. The
            policy's limits apply to it, too.

    Raises:
        PlanRefused: the device does not accept the plan; the ledger is unchanged.
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
        """The plan to report under."""
        return self._plan

    def status(self, now: int | None = None) -> Status:
        """Return whether :meth:`report` would report, or why not; the same for every record.

        Args:
            now: time in milliseconds since the epoch; None means the clock's time.

        Raises:
            CalmstreamError: the store cannot be read.
        """
        return self._status(self._store.read(), self._clock() if now is None else now)

    def refusal(self, now: int | None = None) -> Refusal | None:
        """Return why the device does not accept the plan now, or None if it accepts it.

        The reason can be a change of the policy or the end of the certificate's validity.

        Args:
            now: time in milliseconds since the epoch; None means the clock's time.

        Raises:
            CalmstreamError: the store cannot be read.
        """
        refused = self._standing(self._store.read(), self._clock() if now is None else now)
        return None if refused is None else refused.reason

    def remaining(self, now: int | None = None) -> Remaining:
        """Return the epsilon that the plan's operator can still spend under the policy.

        Args:
            now: time in milliseconds since the epoch; None means the clock's time.

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
        """Allow reports again; the privacy loss that was spent before still counts."""
        control.rejoin(self._store)

    def report(self, record: Mapping[str, object]) -> Report | None:
        """Return the device's report, or None if it must not report now.

        This decision is made before the record is read, and depends on the time, the secret and the
        ledger only. Every record gives a report. A label that is unknown, missing or unreadable
        counts as the attribute's ``other`` label, or as a uniformly random label if there is no
        ``other``. An integer, also one of numpy, counts as the label with the same digits. Only the
        attributes of the device's own view are read.

        The ledger is written last, when nothing else can fail. After a failure before that, the
        ledger is unchanged and the device can report at the next call. When this method returns a
        report, the ledger already contains it durably. The caller may resend the report unchanged.
        A report that gets lost is not made again, because that would be a second report.

        Args:
            record: the true value of each attribute, by attribute name.

        Raises:
            CalmstreamError: the store cannot be read or written; nothing was reported. No content
                of the record causes an error.
        """
        now = self._clock()
        state = self._store.read()
        if self._status(state, now) is not Status.READY:
            return None
        where = place(self._plan, state.secret)
        report = self._checked(self._perturb(record, where, self._plan.window_at(now)))
        return report if self._claim(report, state.secret, now) else None

    def _claim(self, report: Report, secret: bytes, now: int) -> bool:
        """Write a report to the ledger and the history, durably.

        Returns:
            False, without writing, if another thread or process has used up the permission since.
        """
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
            FatalError: a gateway cannot read it: a defect, or a plan that a device should refuse.
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

    def _perturb(self, record: Mapping[str, object], where: Place, window: int) -> Report:
        view = self._plan.groups[where.group].views[where.view]
        codes = np.zeros((1, len(self._plan.domain)), np.uint16)
        for j in view.attributes:
            codes[0, j] = self._code(record, j)
        inputs = view.inputs(codes, self._plan.domain)
        columns = self._plan.mechanisms[where.group].perturb(inputs, self._randomness)
        return Report(where.group, window, where.view, _frozen(columns))

    def _code(self, record: Mapping[str, object], j: int) -> int:
        """Return the code of attribute j; every record has one."""
        attribute = self._plan.domain.attributes[j]
        try:
            code = self._plan.domain.code(j, record[attribute.field], self._randomness)
        except Exception:  # noqa: BLE001 - the caller's mapping and labels can raise any error
            code = attribute.other
        if code is None:
            return int(uniform_below(attribute.cardinality, 1, self._randomness)[0])
        return code


def _policy(state: DeviceState) -> Policy:
    """Return the stored policy, or the strict default if the store has none."""
    return state.policy or Policy()


def _frozen(columns: Mapping[str, NDArray[Any]]) -> Reports:
    """Make the arrays read-only."""
    for column in columns.values():
        column.flags.writeable = False
    return columns
