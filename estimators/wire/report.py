"""What a device hands to a gateway: one perturbed report, as JSON (docs/wire-formats.md)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from calmstream.common.errors import Reason
from calmstream.estimators.mechanisms.base import Column
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import Batch, check_size, form_of, refuse, refuse_range

VERSION = "1.0"


def encode_report(plan: Plan, group: int, report: Batch) -> bytes:
    columns = plan.mechanisms[group].columns
    body: dict[str, Any] = {
        "v": VERSION,
        "plan": plan.digest,
        "group": group,
        "period": report.period,
        "n": report.n,
        "columns": {c.name: _encode_column(c, report.columns[c.name]) for c in columns},
    }
    if report.view is not None:
        body["view"] = np.ascontiguousarray(report.view)
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def _encode_column(column: Column, values: NDArray[Any]) -> Any:
    if column.kind == "bits":
        return base64.b64encode(np.ascontiguousarray(values, np.uint8).tobytes()).decode()
    return np.ascontiguousarray(values, np.int64)


def decode_report(plan: Plan, value: bytes) -> tuple[int, Batch]:
    """Return a report's group, and the report as a batch of one; its window is one of the plan's.

    Checks run in the order of `Reason`, so that one input always gets one reason. Raises
    `Rejection` and nothing else.
    """
    check_size(value)  # A parser must not be fed what the plan would never produce.
    try:
        body = orjson.loads(value)
    except (orjson.JSONDecodeError, RecursionError):
        refuse(Reason.UNDECODABLE, "not JSON")
    return report_of(plan, body)


def report_of(plan: Plan, body: object) -> tuple[int, Batch]:
    """Return what `decode_report` does, from parsed JSON whose size the caller has bounded."""
    if not isinstance(body, dict):
        refuse(Reason.UNDECODABLE, "not a JSON object")
    version, group = body.get("v"), body.get("group")
    if not isinstance(version, str) or version.split(".")[0] != str(plan.wire):
        refuse(Reason.UNKNOWN_VERSION, f"expected major {plan.wire}")
    if body.get("plan") != plan.digest:
        refuse(Reason.UNKNOWN_PLAN, f"expected plan {plan.digest[:8]}")
    if type(group) is not int:
        refuse(Reason.MALFORMED, "group must be an integer")
    if not 0 <= group < len(plan.groups):
        refuse(Reason.WRONG_GROUP, f"the plan has {len(plan.groups)} groups, got {group}")
    batch = _batch(plan, group, body)
    if batch.period >= plan.windows:
        refuse(Reason.AFTER_END, f"the plan's last window is {plan.windows - 1}")
    if batch.period < 0:
        refuse(Reason.LATE, "the plan's first window is 0")
    return group, batch


def _batch(plan: Plan, group: int, body: Mapping[str, Any]) -> Batch:
    n, period = body.get("n"), body.get("period")
    if type(n) is not int or type(period) is not int:
        refuse(Reason.MALFORMED, "n and period must be integers")
    columns = body.get("columns")
    if not isinstance(columns, dict):
        refuse(Reason.MALFORMED, "columns must be an object")
    if n != 1:
        refuse(Reason.OUT_OF_RANGE, f"n must be 1, got {n}")
    declared = plan.mechanisms[group].columns
    if set(columns) != {column.name for column in declared}:
        refuse(Reason.MALFORMED, f"expected columns {[c.name for c in declared]}")
    decoded = {
        column.name: (_integer if column.kind == "int" else _bits)(column, columns[column.name])
        for column in declared
    }
    view = form_of(plan, group).view
    if (view is not None) != ("view" in body):
        refuse(Reason.MALFORMED, "view stands where the group has several views, and only there")
    return Batch(period, n, None if view is None else _integer(view, body["view"]), decoded)


def _integer(column: Column, values: object) -> NDArray[Any]:
    if isinstance(values, list) and len(values) != 1:
        detail = f"column {column.name} has {len(values)} entries, n is 1"
        refuse(Reason.LENGTH_MISMATCH, detail)
    if not isinstance(values, list) or type(values[0]) is not int:  # true is none
        refuse(Reason.MALFORMED, f"column {column.name} must be a list of integers")
    if not 0 <= values[0] < column.bound:
        refuse_range(column)
    return np.array(values, np.int64)


def _bits(column: Column, text: object) -> NDArray[Any]:
    if not isinstance(text, str):
        refuse(Reason.MALFORMED, f"column {column.name} must be a base64 string")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        refuse(Reason.MALFORMED, f"column {column.name} is not base64")
    size = -(-column.bound // 8)
    if len(raw) != size:
        refuse(Reason.LENGTH_MISMATCH, f"column {column.name} has {len(raw)} bytes, not {size}")
    # Decoders disagree about superfluous padding and about bits that no byte uses; what is admitted
    # must not depend on the reader.
    if text != base64.b64encode(raw).decode():
        refuse(Reason.MALFORMED, f"column {column.name} is not the canonical base64 of its bytes")
    if raw[-1] >> (column.bound % 8 or 8):
        refuse_range(column)
    return np.frombuffer(raw, np.uint8)[None]
