"""Turns a device's record into one perturbed report, or into none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broker.clock import wall_clock
from estimators.errors import FatalError, Rejection
from estimators.mechanisms.base import Reports
from estimators.plan import Plan
from estimators.randomness import Randomness, SystemRandomness, uniform_below
from estimators.wire.batch import decode_report
from producer.device.assignment import Place, place
from producer.device.encoding import encode_reports
from producer.device.ledger import DeviceState, Status, status
from producer.device.store import DeviceStore


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
    """Turns a device's records into reports within the plan's guarantee.

    Args:
        plan: the plan that asks.
        store: keeps the device's secret and ledger; use a :class:`producer.device.store.FileStore`.
        randomness: perturbs; set it in tests only.
        clock: milliseconds since the epoch.
    """

    def __init__(
        self,
        plan: Plan,
        store: DeviceStore,
        randomness: Randomness | None = None,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        self._plan = plan
        self._store = store
        self._randomness = randomness or SystemRandomness()
        self._clock = clock

    def status(self, now: int | None = None) -> Status:
        """Return whether :meth:`report` would report, or why not; the same for every record.

        Args:
            now: milliseconds since the epoch; the clock's time by default.

        Raises:
            CalmstreamError: the store cannot be read.
        """
        return self._status(self._store.read(), self._clock() if now is None else now)

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
        return report if self._claim(state.secret, now) else None

    def _claim(self, secret: bytes, now: int) -> bool:
        """Write a report to the ledger, durably; return False if another report came first."""
        claimed = False

        def claim(state: DeviceState) -> DeviceState:
            nonlocal claimed
            claimed = state.secret == secret and self._status(state, now) is Status.READY
            return state.spend(self._plan, self._plan.window_at(now)) if claimed else state

        self._store.update(claim)
        return claimed

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
        slot = place(self._plan, state.secret).slot
        return status(self._plan, slot, state.under(self._plan.lineage), now)

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


def _frozen(columns: Mapping[str, NDArray[Any]]) -> Reports:
    for column in columns.values():
        column.flags.writeable = False
    return columns
