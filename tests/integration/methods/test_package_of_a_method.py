"""A method and its mechanism in a package of their own: found by entry points, used everywhere."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.runs import ran
from tests.support.service.processes import Process, until

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "one_way"
TABLE = "colour,size\n" + "red,s\nred,m\nblue,m\ngreen,l\n" * 50
PLAN = "plan t.csv --epsilon 2 --users 4000 --k 2 --name n --purpose p --owner o --window 60s"


def installed(site: Path, name: str, points: dict[str, str], **others: dict[str, str]) -> None:
    """Write what an installer writes about a package with entry points."""
    about = site / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, stated in {"methods": points, **others}.items():
        lines += [f"[calmstream.{group}]", *(f"{key} = {value}" for key, value in stated.items())]
    (about / "entry_points.txt").write_text("\n".join([*lines, ""]))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    site = tmp_path / "site"
    points = project["entry-points"]
    mechanisms = points["calmstream.mechanisms"]
    installed(site, "one_way", points["calmstream.methods"], mechanisms=mechanisms)
    for module in EXAMPLE.glob("*.py"):
        shutil.copy(module, site)
    (tmp_path / "t.csv").write_text(TABLE)
    return site


def paths(site: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}


def run(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return python(site, "-m", "calmstream", *words)


def python(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    own = os.environ | paths(site) | {"COLUMNS": "200"}
    return ran(sys.executable, *words, code=None, seconds=240, cwd=site.parent, env=own)


def test_it_is_planned_and_evaluated(site: Path) -> None:
    planned = run(site, *PLAN.split(), "--method", "one-way", "--out", "plan.json")
    assert planned.returncode == 0, planned.stderr
    plan = json.loads((site.parent / "plan.json").read_text())
    assert plan["method"]["name"] == "one-way"
    assert [group["views"][0]["attributes"] for group in plan["groups"]] == [[0], [1]]
    assert {group["mechanism"]["name"] for group in plan["groups"]} == {"one-cell"}
    words = "evaluate t.csv --method one-way,uniform --epsilon 2 --k 1 --users 4000 --repeats 4"
    measured = run(site, *words.split(), "--json")
    assert measured.returncode == 0, measured.stderr
    ours, even = (json.loads(line) for line in measured.stdout.splitlines())
    assert ours["sse_mean"] < even["sse_mean"] / 5
    assert 0.8 <= ours["coverage"] <= 1.0
    assert "one-way" in run(site, "plan", "--method", "list").stdout


PROGRAM = """
import numpy as np
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.randomness import SeededRandomness
own = standard("one-cell", "0.5", 3)
rows = np.array([[float(p) for p in row] for row in own.channel()])
assert np.allclose(rows.sum(axis=1), 1)
assert (rows.max(axis=0) / rows.min(axis=0)).max() <= np.exp(0.5)
f = np.array([0.6, 0.3, 0.1])
# The estimate from each output alone, by enumeration: its mean is f, its covariance the stated one.
outputs = [{"j": np.array([j]), "b": np.array([b])} for j in range(3) for b in (0, 1)]
each = np.array([own.estimate(own.tally(one, None, 1)[0], 1) for one in outputs])
weight = f @ rows
assert np.allclose(weight @ each, f)
stated = own.covariance(1, f)
assert np.allclose((each.T * weight) @ each - np.outer(f, f),
                   np.diag(stated.diagonal) - stated.factors @ stated.factors.T)
drawn = own.draw_tally(np.full(3, 200_000), np.random.default_rng(1))
assert abs(own.estimate(drawn, 600_000) - 1 / 3).max() < 0.02
assert own.to_json() == {"name": "one-cell", "cells": 3}
assert own.variance(10, f).min() > 0
"""


def test_its_mechanism_is_what_it_states(site: Path) -> None:
    done = python(site, "-c", PROGRAM)
    assert done.returncode == 0, done.stderr


@pytest.mark.kafka
@pytest.mark.slow
def test_it_is_collected_over_kafka_and_published(site: Path, kafka_bootstrap: str) -> None:
    times = ["--window", "10s", "--grace", "2s", "--lifetime", "10m"]
    plan = [*PLAN.replace(" --window 60s", "").split(), *times, "--out", "plan.json"]
    planned = run(site, *plan, "--method", "one-way")
    assert planned.returncode == 0, planned.stderr
    where = ["--plan", "plan.json", "--bootstrap", kafka_bootstrap]
    where += ["--namespace", f"one-way-{secrets.token_hex(4)}"]
    assert run(site, "topics", *where).returncode == 0
    at = ["--plan", site.parent / "plan.json", *where[2:]]
    worker = Process(site.parent / "worker.log", "consume", *at, settings=paths(site))
    try:
        sent = run(site, "produce", *where, "--records", "t.csv", "--windows", "1")
        assert sent.returncode in {0, 3}, sent.stderr
        asked = ["query", *where, "--attributes", "colour,size", "--format", "json"]
        until("a final is there", lambda: run(site, *asked).returncode == 0, 180, 1.0)
        shown = json.loads(run(site, *asked).stdout)
    finally:
        worker.kill()
    assert "one-way" in (site.parent / "plan.json").read_text()
    assert shown["reports"] > 0, worker.tail()


def test_a_package_that_cannot_be_used_harms_no_other(site: Path) -> None:
    (site / "broken.py").write_text("raise RuntimeError('half installed')")
    installed(site, "broken", {"broken": "broken:Method", "twice": "broken:A"})
    installed(site, "second", {"twice": "broken:B"})
    for name, why in {
        "broken": "'broken' of the package broken cannot be loaded: RuntimeError: half installed",
        "twice": "'twice' is stated by broken and second; remove one",
        "absent": "unknown method 'absent'",
    }.items():
        refused = run(site, *PLAN.split(), "--method", name)
        assert refused.returncode == 2
        assert why in refused.stderr
        assert "Traceback" not in refused.stderr
    shown = run(site, "plan", "--method", "list")
    assert shown.returncode == 0, shown.stderr
    assert "half installed" in shown.stdout
    assert run(site, *PLAN.split(), "--method", "one-way").returncode == 0
