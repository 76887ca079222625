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
from calmstream.estimators.wire.batch import Batch, check_size, refuse

VERSION = "1.0"


def encode_report(plan: Plan, group: int, report: Batch) -> bytes:
    columns = {
        column.name: _encode_column(column, report.columns[column.name])
        for column in plan.mechanisms[group].columns
    }
    body: dict[str, Any] = {
        "v": VERSION,
        "plan": plan.digest,
        "group": group,
        "period": report.period,
        "n": report.n,
        "columns": columns,
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
    decoded = {column.name: _column(column, columns[column.name]) for column in declared}
    return Batch(period, n, _view(plan, group, body), decoded)


def _view(plan: Plan, group: int, body: Mapping[str, Any]) -> NDArray[np.int64] | None:
    views = len(plan.groups[group].views)
    if (views > 1) != ("view" in body):
        refuse(Reason.MALFORMED, "view stands where the group has several views, and only there")
    return None if views == 1 else _integer("view", body["view"], views)


def _column(column: Column, values: object) -> NDArray[Any]:
    if column.kind == "int":
        return _integer(column.name, values, column.bound)
    return _bits(column, values)


def _integer(name: str, values: object, bound: int) -> NDArray[np.int64]:
    if not isinstance(values, list):
        refuse(Reason.MALFORMED, f"column {name} must be a list of integers")
    if len(values) != 1:
        refuse(Reason.LENGTH_MISMATCH, f"column {name} has {len(values)} entries, n is 1")
    if type(values[0]) is not int:  # true is none
        refuse(Reason.MALFORMED, f"column {name} must be a list of integers")
    if not 0 <= values[0] < bound:
        refuse(Reason.OUT_OF_RANGE, f"column {name} must lie in [0, {bound})")
    return np.array(values, np.int64)


def _canonical(text: str, raw: bytes) -> bool:
    """Return whether ``text`` is the one base64 spelling of ``raw``, not empty: O(1).

    Decoders disagree about superfluous padding and about bits that no byte uses; what is admitted
    must not depend on the reader.
    """
    last = len(raw) % 3 or 3
    ending = base64.b64encode(raw[-last:]).decode()
    return len(text) == 4 * -(-len(raw) // 3) and text.endswith(ending)


def _bits(column: Column, text: object) -> NDArray[np.uint8]:
    if not isinstance(text, str):
        refuse(Reason.MALFORMED, f"column {column.name} must be a base64 string")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        refuse(Reason.MALFORMED, f"column {column.name} is not base64")
    size = -(-column.bound // 8)
    if len(raw) != size:
        refuse(Reason.LENGTH_MISMATCH, f"column {column.name} has {len(raw)} bytes, not {size}")
    if not _canonical(text, raw):
        refuse(Reason.MALFORMED, f"column {column.name} is not the canonical base64 of its bytes")
    if raw[-1] >> (column.bound % 8 or 8):
        refuse(Reason.OUT_OF_RANGE, f"column {column.name} has bits beyond {column.bound}")
    return np.frombuffer(raw, np.uint8)[None]
