"""Plans that strangers changed, and what Python says about them, for edges in other languages."""

from __future__ import annotations

from collections.abc import Iterator

from calmstream import read_device_plan
from calmstream.common.errors import PlanError


def verdict(raw: bytes) -> str:
    """What `edge/typescript/test/tools/read.ts` must answer: `refused`, or digest and form."""
    try:
        plan = read_device_plan(raw)
    except PlanError:
        return "refused"
    return f"{plan.digest} canonical" if plan.to_bytes() == raw else "other"


def agrees(expected: str, answer: str) -> bool:
    """Whether an answer says the same; the digest of bytes in another form is not compared."""
    if expected == "refused":
        return answer.startswith("refused")
    if expected == "other":
        return answer.endswith(" other")
    return answer == expected


def disagreements(plans: list[bytes], answers: list[str]) -> Iterator[str]:
    for raw, answer in zip(plans, answers, strict=True):
        expected = verdict(raw)
        if not agrees(expected, answer):
            yield f"expected {expected!r}, got {answer!r} for {raw[:3000]!r}"
