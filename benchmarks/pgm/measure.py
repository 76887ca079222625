"""Measure the errors of one point: ours and Private-PGM's; its package is needed for those only."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import Any

import orjson

from benchmarks.pgm.problem import Point, Problem, draw, ours

SOLVERS = ("mirror descent", "L-BFGS")
MAX_JOINT = 1 << 23  # largest joint table for which the fast inference is used


def inputs_digest(problem: Problem) -> str:
    """Return a digest of the inputs and targets of both sides."""
    value = hashlib.sha256(orjson.dumps([asdict(problem.point), problem.repeat]))
    value.update(repr(problem.targets).encode())
    for m in problem.measurements:
        value.update(repr((m.attributes, m.deviation)).encode())
        value.update(m.table.tobytes())
    return value.hexdigest()[:32]


def accuracy(point: Point, repeats: int) -> dict[str, Any]:
    """Measure the errors of our method and of both solvers, with the same data in each repeat."""
    plan = point.plan()
    rows: dict[str, list[dict[str, Any]]] = {"ours": [], **{s: [] for s in SOLVERS}}
    digests = []
    for repeat in range(repeats):
        problem = draw(point, plan, repeat)
        digests.append(inputs_digest(problem))
        rows["ours"].append(ours(problem))
        for solver in SOLVERS:
            rows[solver].append(_fast(problem, solver))
    header = {"part": "accuracy", "point": asdict(point), "views": _views(plan)}
    return header | {"problems": digests, "rows": rows}


def ours_again(point: Point, old: dict[str, Any]) -> dict[str, Any]:
    """Measure our side of an accuracy result again; keep Private-PGM's."""
    plan = point.plan()
    problems = [draw(point, plan, repeat) for repeat in range(len(old["rows"]["ours"]))]
    digests = [inputs_digest(problem) for problem in problems]
    if old.get("problems", digests) != digests or old["views"] != _views(plan):
        raise ValueError(f"{point.name}: other views or tallies than Private-PGM was given")
    rows = old["rows"] | {"ours": [ours(problem) for problem in problems]}
    return old | {"problems": digests, "rows": rows}


def _fast(problem: Problem, solver: str) -> dict[str, Any]:
    from benchmarks.pgm.fit import with_fast_inference

    if problem.plan.domain.size() > MAX_JOINT:
        raise ValueError(f"a joint table of {problem.plan.domain.size():,} cells")
    return with_fast_inference(problem, solver)


def _views(plan: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for group in plan.groups:
        for view in group.views:
            size = str(len(view.attributes))
            counts[size] = counts.get(size, 0) + 1
    return counts
