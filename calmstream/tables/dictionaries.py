"""Data dictionaries: calmstream's own, plans, and files of other tools (Glean, Go, JSON Schema)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from calmstream.common.errors import InvalidInput
from calmstream.estimators.domain import Domain
from calmstream.tables import numbers

Entry = dict[str, Any]
_SUFFIXES = (".json", ".yaml", ".yml", ".txt")
_LEVELS = 16  # most bins of a number of which only the bounds are stated
_DEPTH = 4  # most references in a row, and objects in one another: a schema may contain itself


@dataclass(frozen=True, slots=True, eq=False)
class Dictionary:
    """What a data dictionary says, whose it is, and why some names could not be taken over."""

    domain: Domain
    source: str
    left: Mapping[str, str]


def read_dictionary(path: str | Path) -> Dictionary | None:
    """Read the data dictionary in a file; None if the file is a table."""
    path = Path(path)
    if path.suffix not in _SUFFIXES:
        return None
    try:
        return _dictionary(path.read_bytes(), yaml=path.suffix in (".yaml", ".yml"))
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from None
    except InvalidInput as error:
        raise type(error)(f"{path}: {error}") from None


def _dictionary(raw: bytes, *, yaml: bool) -> Dictionary | None:
    found = _entries(raw, yaml=yaml)
    if found is None:
        return None
    source, entries, left = found
    if not entries and left:
        why = "; ".join(f"{name}: {reason}" for name, reason in list(left.items())[:3])
        raise InvalidInput(f"nothing says which labels there are ({why})")
    return Dictionary(Domain.from_dictionary(entries), source, left)


def _entries(raw: bytes, *, yaml: bool) -> tuple[str, Any, dict[str, str]] | None:
    """Return whose dictionary it is, its entries, and the names left out; None: a table."""
    if yaml:
        return ("Glean", *_taken(_glean(_yaml(raw))))
    if re.search(rb"^counter:", raw, re.MULTILINE):
        return ("Go's charts", *_taken(_go(raw.decode("utf-8", "replace"))))
    try:
        return _of_json(orjson.loads(raw))
    except orjson.JSONDecodeError as error:
        if raw.lstrip()[:1] not in (b"{", b"[") or b"\n{" in raw.strip():
            return None  # text, or an object on each line
        raise InvalidInput(f"not JSON: {error}") from None


def _of_json(document: Any) -> tuple[str, Any, dict[str, str]] | None:
    if isinstance(document, dict) and isinstance(document.get("properties"), dict):
        return ("JSON Schema", *_taken(_schema(document, document["properties"])))
    if isinstance(document, dict) and "domain" in document:
        return "calmstream", document["domain"], {}
    if isinstance(document, list) and document and isinstance(document[0], dict):
        words = {"labels", "options", "edges", "kind"}
        if not ("name" in document[0] and words & document[0].keys()):
            return None  # the records of a table
    if isinstance(document, dict) and any(
        isinstance(x, list) and x and isinstance(x[0], dict) for x in document.values()
    ):
        return None  # a table in one of its fields
    return "calmstream", document, {}


def _taken(found: Iterator[tuple[str, Entry | str]]) -> tuple[list[Entry], dict[str, str]]:
    """Return the entries, and the reasons where there is none; the last one of a name counts."""
    entries: dict[str, Entry] = {}
    left: dict[str, str] = {}
    for name, entry in found:
        if isinstance(entry, str):
            left[name] = entry
        else:
            entries[name] = {"name": name, **entry}
    return list(entries.values()), left


def _yaml(raw: bytes) -> Any:
    import yaml

    try:
        return yaml.safe_load(raw)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or "cannot be read"
        raise InvalidInput(f"{where}not YAML: {problem}") from None


def _glean(document: Any) -> Iterator[tuple[str, Entry | str]]:
    if not isinstance(document, dict):
        raise InvalidInput("expected Glean's categories of metrics")
    for category, metrics in document.items():
        if str(category).startswith(("$", "no_lint")) or not isinstance(metrics, dict):
            continue
        for metric, found in metrics.items():
            about = found if isinstance(found, dict) else {}
            name, kind, labels = f"{category}.{metric}", about.get("type"), about.get("labels")
            if kind == "boolean":
                yield name, {"labels": ["false", "true"]}
            elif str(kind).startswith("labeled_") and isinstance(labels, list):
                yield name, {"kind": "choices", "options": list(map(str, labels))}
            elif kind == "quantity":
                yield name, f"quantity ({about.get('unit', 'no unit')}) without bounds: state edges"
            else:
                yield name, f"{kind or 'no type'} without a list of labels"


_BUCKETS = re.compile(r"([^{}:]*):\{([^{}]*)\}")


def _go(text: str) -> Iterator[tuple[str, Entry | str]]:
    """Yield the counters of Go's chart configuration: those with buckets are choices."""
    for record in re.split(r"^---\s*$", text, flags=re.MULTILINE):
        fields = dict(re.findall(r"^(\w+):[ \t]*([^#\n]*?)[ \t]*(?:#.*)?$", record, re.MULTILINE))
        counter = fields.get("counter", "")
        found = _BUCKETS.fullmatch(counter)
        if found and fields.get("type") != "stack":
            options = [part.strip() for part in found[2].split(",")]
            more = {"other": "other"} if "other" in options else {}
            yield found[1], {"kind": "choices", "options": list(filter(None, options)), **more}
        elif counter:
            yield counter, "a counter without buckets, or a stack"


def _schema(
    root: dict[str, Any], properties: dict[str, Any], before: str = ""
) -> Iterator[tuple[str, Entry | str]]:
    """Yield the properties of a JSON Schema; those of an object have names such as a.b."""
    for key, found in properties.items():
        name, about = f"{before}{key}", _target(root, found)
        inner = about.get("properties")
        if isinstance(inner, dict) and name.count(".") < _DEPTH:
            yield from _schema(root, inner, f"{name}.")
        else:
            yield name, _property(root, about)


def _target(root: dict[str, Any], about: Any) -> dict[str, Any]:
    for _ in range(_DEPTH):
        reference = about.get("$ref") if isinstance(about, dict) else None
        if not isinstance(reference, str):
            break
        about = root
        for part in reference.removeprefix("#").strip("/").split("/"):
            about = about.get(part) if isinstance(about, dict) else None
    return about if isinstance(about, dict) else {}


def _property(root: dict[str, Any], about: dict[str, Any]) -> Entry | str:
    kind, values = about.get("type"), about.get("enum")
    types = [x for x in (kind if isinstance(kind, list) else [kind]) if x not in ("null", None)]
    if values is None and isinstance(about.get("oneOf"), list):
        branches = [one for one in about["oneOf"] if one != {"type": "null"}]
        if all(isinstance(one, dict) and "const" in one for one in branches):
            values = [one["const"] for one in branches]
    if types == ["boolean"]:
        values = [False, True]
    if isinstance(values, list):
        labels = [_label(value) for value in values if value is not None]
        known = [label for label in labels if label is not None]
        if len(known) < len(labels):
            return "an enum with values that are no texts, whole numbers or booleans"
        return {"labels": known} if len(known) > 1 else "an enum without two labels"
    if types == ["array"]:
        item = _property(root, _target(root, about.get("items")) | {"items": None})
        if isinstance(item, dict) and "labels" in item:
            return {"kind": "choices", "options": item["labels"]}
    if types in (["integer"], ["number"]):
        return _bounded(about, whole=types == ["integer"])
    return f"{types[0] if types else 'no type'} without an enum"


def _label(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int)) else None


def _bounded(about: dict[str, Any], *, whole: bool) -> Entry | str:
    """Return a number between two bounds, in equal bins; few whole numbers are labels."""
    above, below = about.get("exclusiveMinimum"), about.get("exclusiveMaximum")
    low, high = about.get("minimum", above), about.get("maximum", below)
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)) or low >= high:
        return "a number without two bounds: state edges"
    if whole and high - low < _LEVELS:
        outside = [x for x in (above, below) if not isinstance(x, bool)]  # booleans: draft 4
        labels = [str(x) for x in range(math.ceil(low), math.floor(high) + 1) if x not in outside]
        if len(labels) < 2:
            return "a number with fewer than two values"
        return {"kind": "ordered", "labels": labels}
    step = (high - low) / _LEVELS
    found = [numbers.short(low + step * i, step / 10) for i in range(1, _LEVELS)]
    return {"kind": "number", "edges": [low, *found, high]}
