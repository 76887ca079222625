"""Find the mutants of a source file: :func:`sample` draws some, :func:`find_again` the same ones.

Docstrings, type hints, decorators, ``__all__``, log messages, error texts, metric definitions, ``if
TYPE_CHECKING`` and protocols do not change.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, product
from pathlib import Path
from typing import Any

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
SIGNS = {old: f"{old.__name__} to {new.__name__}" for old, new in OPERATORS.items()}
EXACT = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Comparisons whose changed operator is their negation."""
LOGGED = {"debug", "info", "warning", "error", "exception", "critical"}
METRICS = {"MetricDefinition", "Gauge", "Histogram", "Counter"}

Change = tuple[Any, Any, str, str]
"""The node that is replaced, the node of the mutant's place, kind, new text."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: ``old`` becomes ``new`` at bytes [start, end) of a file.

    ``own`` is the first and last line of what changes, ``header`` those of its statement.
    ``occurrence`` is the number of equal changes before this one in the same function.
    """

    file: str
    line: int
    column: int
    kind: str
    area: str
    function: str
    old: str
    occurrence: int
    new: str
    start: int
    end: int
    own: tuple[int, int]
    header: tuple[int, int]
    in_function: bool

    def record(self) -> dict[str, Any]:
        """Return the fields that are written to the results and that find the mutant again."""
        return {name: getattr(self, name) for name in RECORDED}


RECORDED = ("file", "line", "column", "kind", "area", "function", "old", "occurrence", "new")
CONTENT = ("function", "kind", "old", "occurrence")


def content(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a mutant in its file, also if lines move or the file is renamed."""
    return tuple(record[name] for name in CONTENT)


def changes(node: Any) -> Iterator[Change]:
    """Yield the changes of operators and constants at a node."""
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            ops: list[Any] = [*node.ops[:i], OPERATORS[type(op)](), *node.ops[i + 1 :]]
            text = ast.unparse(ast.Compare(node.left, ops, node.comparators))
            yield node, node.comparators[i], SIGNS[type(op)], text
    elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in OPERATORS:
        new = OPERATORS[type(node.op)]()
        text = ast.unparse(type(node)(**{**dict(ast.iter_fields(node)), "op": new}))
        # Nested operations start at one place; their right operands do not.
        place = getattr(node, "right", None) or getattr(node, "values", [node, node])[1]
        yield node, place, SIGNS[type(node.op)], text
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, node, "not removed", ast.unparse(node.operand)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, node, "boolean flipped", repr(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield node, node, "integer + 1", repr(node.value + 1)


def negations(node: Any) -> Iterator[Change]:
    """Yield the negation of a node's conditions, unless a changed operator has the same effect."""
    tests: list[Any] = (
        [node.test] if isinstance(node, ast.If | ast.IfExp) else getattr(node, "ifs", [])
    )
    for test in tests:
        inverse = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        compared = isinstance(test, ast.Compare) and len(test.ops) == 1
        if not inverse and not (compared and isinstance(test.ops[0], EXACT)):
            yield test, test, "condition negated", f"not ({ast.unparse(test)})"


def deletions(node: Any, function: Any) -> Iterator[Change]:
    """Yield the deletion of calls and assignments, and None where the function may return it."""
    if isinstance(node, ast.Return) and node.value and not _is_none(node.value):
        if function.returns and "None" in ast.unparse(function.returns):
            yield node, node, "None returned", "return None"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield node, node, "statement deleted", "pass"
    elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
            yield node, node, "statement deleted", "pass"


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def left_alone(node: Any) -> bool:
    """Return whether a node is not changed: an error text, log message, metric, protocol, ..."""
    call = node.value if isinstance(node, ast.Expr) else node
    if isinstance(call, ast.Call):
        *owner, name = ast.unparse(call.func).rsplit(".", 1)
        logs = name in LOGGED and "log" in "".join(owner)
        return logs or (name in METRICS and bool(call.args))
    if isinstance(node, ast.ClassDef):
        return any("Protocol" in ast.unparse(base) for base in node.bases)
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) == "__all__"
    return isinstance(node, ast.Raise | ast.JoinedStr)


class Finder:
    """Collects the mutants of one file in ``found`` and its qualified names in ``functions``."""

    def __init__(self, file: str, area: str, source: bytes) -> None:
        self.found: list[Mutant] = []
        self.functions = {""}
        self._file, self._area, self._source = file, area, source
        self._starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
        self._seen: Counter[tuple[str, ...]] = Counter()
        self._visit(ast.parse(source), "", None, (1, 1))

    def _visit(self, node: Any, scope: str, function: Any, header: tuple[int, int]) -> None:
        if node is None or left_alone(node):
            return
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or 0
            header = (node.lineno, max(node.lineno, last))
        for change in (*changes(node), *negations(node), *deletions(node, function)):
            self._add(change, scope, header, in_function=function is not None)
        inside: Iterable[Any] = ast.iter_child_nodes(node)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            scope, inside = f"{scope}.{node.name}".lstrip("."), node.body
            self.functions.add(scope)
            if not isinstance(node, ast.ClassDef):
                for default in (*node.args.defaults, *node.args.kw_defaults):
                    self._visit(default, scope, function, header)
                function = node
        elif isinstance(node, ast.AnnAssign):
            inside = (node.value,)
        elif isinstance(node, ast.Assert):
            inside = (node.test,)
        for child in inside:
            self._visit(child, scope, function, header)

    def _add(
        self, change: Change, scope: str, header: tuple[int, int], *, in_function: bool
    ) -> None:
        node, place, kind, new = change
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        same = (scope, kind, ast.unparse(node))
        self.found.append(
            Mutant(
                file=self._file,
                line=place.lineno,
                column=place.col_offset + 1,
                kind=kind,
                area=self._area,
                function=scope,
                old=same[-1],
                occurrence=self._seen[same],
                new=new if isinstance(node, ast.stmt) else f"({new})",
                start=start,
                end=end,
                own=(node.lineno, node.end_lineno),
                header=header,
                in_function=in_function,
            )
        )
        self._seen[same] += 1


def sample(root: Path, areas: Mapping[str, str], count: int, seed: int) -> list[Mutant]:
    """Draw equally many from each area: those with the smallest hashes of seed and content."""
    found: dict[str, list[tuple[str, Mutant]]] = defaultdict(list)
    for file, area in areas.items():
        for mutant in Finder(file, area, (root / file).read_bytes()).found:
            key = (seed, file, *content(mutant.record()))
            rank = hashlib.sha256(repr(key).encode()).hexdigest()
            found[area].append((rank, mutant))
    drawn: list[Mutant] = []
    for i, ranked in enumerate(found.values()):
        share = count // len(found) + (i < count % len(found))
        drawn += [mutant for _, mutant in sorted(ranked, key=lambda pair: pair[0])[:share]]
    return drawn


def find_again(
    root: Path, records: Iterable[Mapping[str, Any]], moved: Mapping[str, Any]
) -> list[Mutant | str]:
    """Find the mutants of earlier results in the present source, by their content."""

    @cache
    def read(file: str, area: str) -> tuple[set[str], dict[tuple[Any, ...], Mutant]]:
        if not (root / file).exists():
            return set(), {}
        finder = Finder(file, area, (root / file).read_bytes())
        return finder.functions, {content(mutant.record()): mutant for mutant in finder.found}

    def find(record: Mapping[str, Any]) -> Mutant | str:
        parts = [read(path, record["area"]) for path in _now(moved, record["file"], [])]
        names = _present_names(moved, record["file"], record["function"])
        for name, (_, mutants) in product(names, parts):
            mutant: Mutant | None = mutants.get(content({**record, "function": name}))
            if mutant:
                return mutant
        there = any(name in functions for name, (functions, _) in product(names, parts))
        return "changed" if there else "gone"

    return [find(record) for record in records]


def _now(moved: Mapping[str, Any], key: str, rest: list[str]) -> list[str]:
    found = moved.get(key, key.rpartition("::")[2])
    return [".".join([now, *rest]) for now in ([found] if isinstance(found, str) else found)]


def _present_names(moved: Mapping[str, Any], file: str, function: str) -> list[str]:
    """Return the qualified names that a function may have now; its class may be renamed, too."""
    words = function.split(".")
    for i in range(len(words), 0, -1):
        key = f"{file}::{'.'.join(words[:i])}"
        if key in moved:
            return _now(moved, key, words[i:])
    return [function]


def matches(root: Path, globs: Iterable[str]) -> list[str]:
    found = {glob: sorted(str(p.relative_to(root)) for p in root.glob(glob)) for glob in globs}
    if missing := [glob for glob, files in found.items() if not files]:
        raise SystemExit(f"no file matches {', '.join(missing)}; correct AREAS or --files")
    return [file for files in found.values() for file in files]
