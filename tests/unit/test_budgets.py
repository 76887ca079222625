# ruff: noqa: T201 - the table is read by people
"""The size of the house: a table by package, and limits that only ever go down.

`FINAL` is what each package may have in the end, where it has more now. `TODAY` is what it may have
now: whoever makes a package smaller lowers its line here. Only a new feature raises one, or what
moves from one package to all: the last was the kit of health and metrics, now in `common`.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from calmstream.cli import COMMANDS, parser
from calmstream.common.settings import settable
from calmstream.connect import SecurityConfig
from calmstream.consumer.central.config import AggregatorConfig
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.runtime.config import HttpConfig, TallyConfig
from calmstream.consumer.serve.settings import ServeSettings
from calmstream.producer.gateway.settings import GatewaySettings

ROOT = Path(__file__).parents[2]
PRODUCT = ("common", "estimators", "broker", "producer", "consumer", "calmstream")
FINAL = {
    "common": 1_200,
    "estimators": 15_500,
    "broker": 4_500,
    "calmstream": 5_600,
    "product": 45_000,
    "tests": 42_000,
}
TODAY = {
    "common": 1_775,
    "estimators": 17_795,
    "broker": 4_935,
    "producer": 6_110,
    "consumer": 10_625,
    "calmstream": 8_785,
    "product": 50_000,
    "tests": 49_070,
    "benchmarks": 8_790,
    "words outside benchmarks": 45_000,
    "words inside benchmarks": 23_300,
    "options of plan": 30,
    "options": 291,
    "settings": 35,
    "names that stand twice": 0,
}


@dataclass
class Size:
    """What one package holds."""

    lines: int = 0
    files: int = 0
    definitions: int = 0
    documented: int = 0


def tracked(*patterns: str) -> list[Path]:
    """Return the files of the repository, links aside."""
    shown = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = (ROOT / name for name in shown.split("\0") if name)
    return [path for path in found if path.is_file() and not path.is_symlink()]


def size_of(package: str, classes: Counter[str]) -> Size:
    """Measure a package, and add the names of its public classes."""
    size = Size()
    for path in tracked(f"{package}/**.py"):
        text = path.read_text()
        size.lines += text.count("\n")
        size.files += 1
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                size.definitions += 1
                size.documented += ast.get_docstring(node, clean=False) is not None
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name] += 1
    return size


def options(of: argparse.ArgumentParser) -> set[str]:
    """Return the options of a command and of the commands below it."""
    found: set[str] = set()
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                found |= {f"{name} {option}" for option in options(below)}
        elif action.option_strings and action.dest != "help":
            found.add(action.option_strings[-1])
    return found


def settings() -> int:
    """Return the number of variables of all roles; one that several roles share counts once."""
    roles = (
        TallyConfig,
        HttpConfig,
        PublisherConfig,
        AggregatorConfig,
        GatewaySettings,
        ServeSettings,
        SecurityConfig,
    )
    return len({name for role in roles for name in settable(role)})


def words(paths: list[Path]) -> int:
    """Return the number of words of documents."""
    return sum(len(path.read_text().split()) for path in paths)


@pytest.fixture(scope="module")
def table() -> dict[str, int]:
    """Measure the repository and print what was measured."""
    measured: dict[str, int] = {}
    classes: Counter[str] = Counter()
    for package in (*PRODUCT, "tests", "benchmarks"):
        size = size_of(package, classes if package in PRODUCT else Counter())
        share = 100 * size.documented // max(1, size.definitions)
        print(f"{package:12}{size.lines:8,} lines {size.files:4} files, {share} % documented")
        measured[package] = size.lines
    measured["product"] = sum(measured[package] for package in PRODUCT)
    documents = tracked("*.md")
    inside = [path for path in documents if path.is_relative_to(ROOT / "benchmarks")]
    measured["words inside benchmarks"] = words(inside)
    measured["words outside benchmarks"] = words([p for p in documents if p not in inside])
    # Without those of calmstream itself, which every command has.
    own = {name: sum(" " in option for option in options(parser(name))) for name in COMMANDS}
    measured["options of plan"] = own["plan"]
    measured["options"] = sum(own.values())
    measured["settings"] = settings()
    measured["names that stand twice"] = sum(1 for count in classes.values() if count > 1)
    print(f"classes: {classes.total()}")
    for name, value in measured.items():
        final = FINAL.get(name, TODAY[name])
        print(f"{name:26}{value:8,} of {TODAY[name]:8,}, in the end {final:8,}")
    return measured


@pytest.mark.parametrize("name", TODAY)
def test_nothing_grows(table: dict[str, int], name: str) -> None:
    assert table[name] <= TODAY[name], f"{name}: take something out, or say why in a decision"


def test_every_final_limit_is_watched() -> None:
    assert set(FINAL) <= set(TODAY)
    assert all(TODAY[name] >= limit for name, limit in FINAL.items())
