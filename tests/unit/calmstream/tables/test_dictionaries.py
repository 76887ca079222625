from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calmstream.common.errors import InvalidInput
from calmstream.tables.dictionaries import read_dictionary
from tests.unit.calmstream.conftest import Command, Refused

GLEAN = """
$schema: moz://mozilla.org/schemas/glean/metrics/2-0-0
browser:
  dark_theme:
    type: boolean
  engines:
    type: labeled_counter
    labels: [ddg, bing]
  tabs:
    type: quantity
    unit: tabs
  locale:
    type: string
"""
GO = """
# approved charts
title: Editor Distribution
counter: gopls/client:{vscode,vim,other} # more later
type: partition
program: golang.org/x/tools/gopls
---
title: Crashes
counter: crash/crash
type: stack
---
counter: gopls/started
type: partition
"""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {"size": {"enum": ["s", "m", "l"]}},
    "properties": {
        "region": {"enum": ["EU", "US", None]},
        "size": {"$ref": "#/$defs/size"},
        "on": {"type": ["boolean", "null"]},
        "stars": {"type": "integer", "minimum": 1, "maximum": 5},
        "rooms": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 4},
        "age": {"type": "integer", "minimum": 0, "exclusiveMinimum": 0, "maximum": 2},
        "half": {"type": "integer", "minimum": -0.5, "maximum": 1.5},
        "plan": {"oneOf": [{"const": "free"}, {"const": "paid"}, {"type": "null"}]},
        "ms": {"type": "number", "minimum": 0, "maximum": 100},
        "uses": {"type": "array", "items": {"enum": ["mail", "maps"]}},
        "device": {"type": "object", "properties": {"os": {"enum": ["x", "y"]}}},
        "name": {"type": "string"},
        "list": {"type": "array", "items": {"$ref": "#/properties/list"}},
        "count": {"type": "integer", "minimum": 0},
        "open": {"oneOf": [{"const": "free"}, {"const": "paid"}, {"type": "string"}]},
        "zoom": {"enum": [0.5, 1.5]},
        "one": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 2},
    },
}

CASES = {
    "metrics.yaml": (
        GLEAN,
        ["browser.dark_theme", "browser.engines=ddg", "browser.engines=bing"],
        {
            "browser.tabs": "quantity (tabs) without bounds",
            "browser.locale": "string without a list",
        },
    ),
    "config.txt": (
        GO,
        ["gopls/client=vscode", "gopls/client=vim", "gopls/client=other"],
        dict.fromkeys(("crash/crash", "gopls/started"), "a counter without buckets, or a stack"),
    ),
    "schema.json": (
        json.dumps(SCHEMA),
        [
            *("region", "size", "on", "stars", "rooms", "age", "half", "plan", "ms"),
            *("uses=mail", "uses=maps", "device.os"),
        ],
        {
            "name": "string without",
            "list": "array without an enum",
            "count": "a number without two bounds",
            "open": "no type without an enum",
            "zoom": "an enum with values that are no texts",
            "one": "a number with fewer than two values",
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_dictionaries_of_others(
    tmp_path: Path, name: str, command: Command, refused: Refused
) -> None:
    text, names, left = CASES[name]
    path, out = tmp_path / name, tmp_path / "out.json"
    path.write_text(text)
    found = read_dictionary(path)
    assert found is not None
    assert list(found.domain.names) == names
    assert found.left.keys() == left.keys()
    assert all(found.left[field].startswith(why) for field, why in left.items())
    shown = command("look", path, "--out", out).out
    assert all(f"not taken over: {field}" in shown for field in left)
    wrong = refused("look", path, "--header-rows", "2")
    assert f"--header-rows: {path} is a data dictionary" in wrong
    again = read_dictionary(out)
    assert again is not None
    assert again.domain == found.domain


@pytest.mark.parametrize(
    ("field", "labels"),
    [("rooms", "1 2 3"), ("age", "1 2"), ("half", "0 1"), ("plan", "free paid")],
)
def test_labels_of_a_schema_are_the_values_that_it_allows(
    tmp_path: Path, field: str, labels: str
) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"properties": {field: SCHEMA["properties"][field]}}))
    found = read_dictionary(path)
    assert found is not None
    assert found.domain.attributes[0].labels == tuple(labels.split())


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("m.yaml", "a:\n  b: [", "line 2, column .*: not YAML"),
        ("m.yaml", "a:\n  b:\n    type: string", "nothing says which labels there are"),
        ("m.yaml", "[1]", "expected Glean's categories"),
        ("s.json", '{"properties": {}}', "a domain has 1 to"),
        ("s.json", "{", "not JSON"),
        ("s.json", '{"properties": {"x": {"type": "string"}}}', "nothing says .*x: string without"),
    ],
)
def test_what_says_no_labels_is_refused(tmp_path: Path, name: str, text: str, why: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidInput, match=why) as refusal:
        read_dictionary(path)
    assert str(path) in str(refusal.value)


def test_tables_are_no_dictionaries(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for text in ('{"a": 1}\n{"a": 2}\n', '[{"a": 1}, {"a": 2}]', "a,b\n1,2\n"):
        path.write_text(text)
        assert read_dictionary(path) is None
