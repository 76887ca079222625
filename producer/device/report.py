"""The report: a record perturbed for one group, its encoded form, and what it says in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import FatalError, Rejection
from calmstream.estimators.domain import Attribute, label_text
from calmstream.estimators.kinds import Choice, Number
from calmstream.estimators.mechanisms.base import Reports
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import Randomness, uniform_below
from calmstream.estimators.wire.batch import Batch
from calmstream.estimators.wire.report import decode_report, encode_report
from calmstream.producer.device.assignment import Place

MAX_CELLS = 1 << 20  # of a view whose values are named
MOST_VALUES = 8


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
        """Return the report in the form in which devices send it.

        The length of integers depends on the perturbed values (their number of digits), that of
        bits on nothing. So it reveals nothing beyond the report itself.
        """
        view = np.array([self.view]) if len(plan.groups[self.group].views) > 1 else None
        return encode_report(plan, self.group, Batch(self.period, 1, view, self.columns))

    @classmethod
    def decode(cls, plan: Plan, raw: bytes) -> Report:
        """Decode a report, for a gateway that receives reports from devices.

        A gateway accepts every report that this returns. A tally worker can
        reject it only because it is too late or too early.

        Args:
            plan: the plan that the report must follow.
            raw: the bytes that a device sent; any bytes.

        Raises:
            Rejection: the bytes are not a report of this plan; the reason is the one that a worker
                would give. There is no other error for any bytes.
        """
        group, batch = decode_report(plan, raw)
        view = 0 if batch.view is None else int(batch.view[0])
        return cls(group, batch.period, view, _frozen(batch.columns))


def perturbed(
    plan: Plan,
    where: Place,
    record: Mapping[str, object],
    window: int,
    randomness: Randomness,
) -> Report:
    """Return a record's report; only the attributes of the device's view are read."""
    view = plan.groups[where.group].views[where.view]
    codes = np.zeros((1, len(plan.domain)), np.uint16)
    for j in view.attributes:
        codes[0, j] = code_of(plan, record, j, randomness)
    columns = plan.mechanisms[where.group].perturb(view.inputs(codes, plan.domain), randomness)
    report = Report(where.group, window, where.view, _frozen(columns))
    try:
        Report.decode(plan, report.encode(plan))
    except Rejection as error:
        raise FatalError(
            f"plan {plan.name}: no gateway reads a report of it ({error}); nothing was reported: "
            "read plans with read_device_plan"
        ) from None
    return report


def check_record(plan: Plan, record: Mapping[str, object]) -> list[str]:
    attributes = {each.field: each for each in plan.domain.attributes}  # one field can have several
    others = [name for name in record if name not in attributes]
    unknown = [f"{name}: the plan has no such attribute" for name in others]
    found = [(name, _trouble(each, record)) for name, each in attributes.items()]
    return unknown + [f"{name}: {trouble}" for name, trouble in found if trouble]


def _trouble(attribute: Attribute, record: Mapping[str, object]) -> str:
    kind, value, why = attribute.kind, record.get(attribute.field), ""
    if attribute.field not in record:
        why = "no value"
    elif isinstance(kind, Choice) and isinstance(value, list | tuple | set | frozenset):
        return "some options are unknown" if set(value) - set(kind.options) else ""
    elif isinstance(kind, Choice):
        why = "expected a list of options"
    elif isinstance(kind, Number):
        why = "expected a finite number" if kind.code(value) is None else ""
    elif label_text(value) not in attribute.labels:
        why = "none of the labels"
    if not why:
        return ""
    instead = "a random label" if attribute.other is None else attribute.labels[attribute.other]
    return f"{why}; reported is {instead}"


def code_of(plan: Plan, record: Mapping[str, object], j: int, randomness: Randomness) -> int:
    """Return the code of attribute j; every record has one."""
    attribute = plan.domain.attributes[j]
    try:
        code = plan.domain.code(j, record[attribute.field], randomness)
    except Exception:  # noqa: BLE001 - the caller's mapping and labels can raise any error
        code = attribute.other
    if code is None:
        return int(uniform_below(attribute.cardinality, 1, randomness)[0])
    return code


def _frozen(columns: Mapping[str, NDArray[Any]]) -> Reports:
    for column in columns.values():
        column.flags.writeable = False
    return columns


def decoded(plan: Plan, raw: bytes) -> str:
    """Return a report in words: the values that it makes more likely.

    Args:
        plan: the plan of the report, such as ``reporter.plan``.
        raw: the report as it left, such as ``sent.value.encode()``.

    Raises:
        Rejection: this is no report of the plan.
    """
    report = Report.decode(plan, raw)
    view, mechanism = plan.groups[report.group].views[report.view], plan.mechanisms[report.group]
    shape = plan.domain.shape(view.attributes)
    if (size := plan.domain.size(view.attributes)) > MAX_CELLS:
        return f"some of {size:,} values"
    codes = np.zeros((size, len(plan.domain)), np.uint16)
    codes[:, view.attributes] = np.indices(shape).reshape(len(shape), -1).T
    counts = mechanism.tally(report.columns, None, 1)[0]
    # An unbiased estimate from this report alone is positive where the report speaks for a value.
    likely = np.flatnonzero((mechanism.estimate(counts, 1) > 0)[view.inputs(codes, plan.domain)])
    labels = [plan.domain.attributes[j].labels for j in view.attributes]
    named = [
        " · ".join(
            label[code] for label, code in zip(labels, codes[i, view.attributes], strict=True)
        )
        for i in likely[:MOST_VALUES]
    ]
    more = f" and {len(likely) - MOST_VALUES:,} more" if len(likely) > MOST_VALUES else ""
    return f"one of: {', '.join(named)}{more} (of {size:,})" if named else "no value stands out"
