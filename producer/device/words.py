"""What a report says, in words, for the person whose device it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calmstream.producer.device.report import Report

if TYPE_CHECKING:
    from calmstream.estimators.plan import Plan

MAX_CELLS = 1 << 20
MOST_VALUES = 8


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
