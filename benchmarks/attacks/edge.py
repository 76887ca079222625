"""Attacks on devices and gateways: by authors of (unsigned) plans, and by one device."""

from __future__ import annotations

import contextlib
import json
import resource
import secrets
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from benchmarks.attacks.attack import (
    COLOUR,
    Attack,
    Verdict,
    make_plan,
)
from calmstream import PlanRefused, Policy, read_device_plan
from calmstream.common.errors import CalmstreamError
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group
from calmstream.estimators.view import View
from calmstream.producer.device.store import FileStore, MemoryStore
from tests.support.gateway.running import line, running, until
from tests.support.producer import unsigned_reporter
from tests.support.service.processes import run

HONEST = 50  # honest reports that share a gateway with one malformed report

PLANS = 200  # plans that one author offers to one device

MAX_LOSS = 8  # largest epsilon that a careful device spends in a year, over all plans

ADDRESS_SPACE = 4 << 30  # bytes of address space of the process that reads a costly plan

READ_SECONDS, READ_BYTES = 1.0, 400 << 20
"""Largest time and additional memory that reading and answering a costly plan may take."""

TEN = (Group(standard("grr", "1", 10), (View((0,)),), (1,)),)
"""The groups of a plan that asks for the one attribute of `COLOUR`."""


def child_plan() -> Verdict:
    """Offer plans of a lineage with a larger total epsilon: the first plan's allowance holds."""
    store, lineage = MemoryStore(), secrets.token_hex(16)
    given = {"lineage": lineage, "epsilon": "1"}
    first = unsigned_reporter(make_plan(lineage_epsilon="1", **given), store).report({})
    later = [
        unsigned_reporter(make_plan(lineage_epsilon=str(2 + i), **given), store).report({})
        for i in range(5)
    ]
    spent = sum(report is not None for report in [first, *later])
    return Verdict(spent == 1, f"epsilon {spent} spent where the first plan says at most 1")


def fresh_lineages() -> Verdict:
    """Offer 200 plans, each with a new lineage; the device must limit the sum over lineages."""
    store = MemoryStore()
    reporters = (unsigned_reporter(make_plan(), store, policy=Policy()) for _ in range(PLANS))
    spent = sum(reporter.report({}) is not None for reporter in reporters)
    return Verdict(spent <= MAX_LOSS, f"epsilon {spent} spent by one device in a moment")


def loud_plan() -> Verdict:
    """Offer a plan of epsilon 16, whose reports would almost always be true."""
    plan = make_plan(epsilon="16", domain=COLOUR, groups=TEN, marginals=((0,),))
    truthful = 0
    for _ in range(200):
        with contextlib.suppress(PlanRefused):
            reporter = unsigned_reporter(plan, MemoryStore(), policy=Policy())
            answer = reporter.report({"colour": "7"})
            truthful += answer is not None and int(answer.columns["v"][0]) == 7
    return Verdict(truthful == 0, f"{truthful} of 200 devices report the truth")


def planned_loss() -> Verdict:
    """Run ``calmstream plan`` for a report of epsilon 16; it must ask for ``--allow-loss``."""
    with tempfile.TemporaryDirectory() as name:
        domain = Path(name) / "domain.json"
        domain.write_text(json.dumps([{"name": n, "labels": ["0", "1"]} for n in "abcd"]))
        words = ["--epsilon", 16, "--users", 1000, "--k", 2, "--owner", "x", "--purpose", "x"]
        done = run("plan", domain, *words, "--name", "loud", "--window", "1h", "--method", "calm")
    lines = [line for line in done.stderr.splitlines() if line.strip()] or ["the plan is written"]
    return Verdict(done.returncode == 2 and "allow-loss" in done.stderr, lines[-1][:160])


def malformed_report() -> Verdict:
    """Give a gateway one malformed report among fifty honest ones; no honest one may be lost."""
    with tempfile.TemporaryDirectory() as name, running(Path(name)) as gateway:
        good = json.loads(line(gateway.plan, 0))["report"]
        bad: list[Any] = [
            {},
            good | {"columns": {"v": [0, 0, 0]}},
            good | {"columns": {"v": [None]}},
            good | {"columns": {"v": [9999]}},
            good | {"columns": {"v": [0], "w": [0]}},
            good | {"group": 7},
            good | {"period": 1 << 70},
            good | {"view": [5]},
        ]
        lost = 0
        for number, report in enumerate(bad):
            first = 100 * number
            lines = [line(gateway.plan, first + value) for value in range(HONEST)]
            lines.insert(HONEST // 2, json.dumps({"id": "ab" * 16, "report": report}).encode())
            lost += HONEST - gateway.report(*lines).results.count("accepted")
        sent = HONEST * len(bad) - lost
        until("all are sent", lambda: len(gateway.values()) >= sent)
    what = f"of {HONEST} honest reports beside each of {len(bad)} kinds {lost} are lost"
    return Verdict(not lost, what)


def lone_reports() -> Verdict:
    """Give three reports in an open window: a batch of one would reveal when it was made."""
    with tempfile.TemporaryDirectory() as name, running(Path(name), min_batch=50) as gateway:
        for value in range(3):
            gateway.report(line(gateway.plan, value))
            time.sleep(1.5)
        alone = len(gateway.values())
    return Verdict(not alone, f"{alone} reports left before the end")


def _document(domain: list[dict[str, Any]], mechanism: dict[str, Any]) -> bytes:
    """Encode a plan with one view of all attributes that is reported by a mechanism."""
    whole = list(range(len(domain)))
    plan = make_plan().to_json() | {
        "domain": domain,
        "groups": [{"mechanism": mechanism, "views": [{"attributes": whole, "share": 1}]}],
        "marginals": [[0]],
    }
    return orjson.dumps(plan)


def _axes(*sizes: int) -> list[dict[str, Any]]:
    return [{"name": f"a{i}", "labels": [str(x) for x in range(n)]} for i, n in enumerate(sizes)]


def bloom_plan() -> bytes:
    """Return a plan of Bloom filters over axes of 2 and 2^20 values, in a few hundred bytes."""
    mechanism = {
        "name": "bloom-rr",
        "cells": 1 << 21,
        "axes": [2, 1 << 20],
        "bits": 1024,
        "hashes": 16,
        "tables": [[0]],
    }
    return _document(_axes(2, 2), mechanism)


def sketch_plan() -> bytes:
    """Return a plan of Hadamard sketches over 2^24 cells."""
    sizes = {"cells": 1 << 24, "hashes": 64, "buckets": 4096, "seed": 1}
    mechanism = {"name": "hadamard-sketch", **sizes}
    return _document(_axes(*[4096] * 2), mechanism)


def costly_plan(make: Callable[[], bytes]) -> Attack:
    """Return an attack: a plan too expensive for a device takes little, and costs no allowance."""

    def attack() -> Verdict:
        raw = make()
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
        store = MemoryStore()
        try:
            plan = read_device_plan(raw)
            report = unsigned_reporter(plan, store).report({})
            what = "read, and answered" if report else "read, and not answered"
            bad = report is None and bool(store.read().lineages)
        except CalmstreamError as error:
            what = f"refused: {str(error)[:90]}"
            bad = bool(store.read().lineages)
        except (MemoryError, ValueError, OverflowError) as error:
            what, bad = f"{type(error).__name__}: {str(error)[:90]}", True
        seconds = time.monotonic() - began
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        cheap = seconds <= READ_SECONDS and grown <= READ_BYTES
        size = f"{len(raw):,} bytes, {seconds:.2f} s, {grown >> 20} MB"
        return Verdict(cheap and not bad, f"{size}: {what}")

    return attack


def claimed_first() -> Verdict:
    """Let a mechanism fail: the one report of the plan must not count as used (*claimed*)."""
    plan, store = make_plan(), MemoryStore()

    def fail(*_: object) -> object:
        raise MemoryError

    mechanism = type(plan.mechanisms[0])
    original, mechanism.perturb = mechanism.perturb, fail  # type: ignore[assignment]
    try:
        unsigned_reporter(plan, store).report({})
    except MemoryError:
        pass
    finally:
        mechanism.perturb = original
    reported = unsigned_reporter(plan, store).report({}) is not None
    return Verdict(reported, "it reports later" if reported else "the one report is used up")


def linked_store() -> Verdict:
    """Use a device's file under two names, one of them a symbolic link; it may report once."""
    plan = make_plan()
    with tempfile.TemporaryDirectory() as name:
        real, link = Path(name) / "device.json", Path(name) / "link.json"
        FileStore(real).read()
        link.symlink_to(real)
        reports = [unsigned_reporter(plan, FileStore(path)).report({}) for path in (link, real)]
    times = sum(report is not None for report in reports)
    return Verdict(times == 1, f"the device reports {times} times")


def numpy_integers() -> Verdict:
    """Report records whose values are numpy integers; they must count as the label "7"."""
    plan = make_plan(epsilon="16", domain=COLOUR, groups=TEN, marginals=((0,),))
    record = {"colour": np.int64(7)}
    cells = [unsigned_reporter(plan, MemoryStore()).report(record) for _ in range(50)]
    right = sum(c is not None and int(c.columns["v"][0]) == 7 for c in cells)
    return Verdict(right > 45, f"{right} of {len(cells)} count as the label that spells them")


ATTACKS: dict[str, Attack] = {
    "A4 a child plan states a larger sum": child_plan,
    "A4 fresh lineages": fresh_lineages,
    "A4 a plan of epsilon 16": loud_plan,
    "A4 planning a report of epsilon 16": planned_loss,
    "A7 a malformed report": malformed_report,
    "A8 a small plan of a large filter": costly_plan(bloom_plan),
    "A8 a plan of a large sketch": costly_plan(sketch_plan),
    "A8 a failure after the claim": claimed_first,
    "A9 a linked store": linked_store,
    "A9 numpy's integers": numpy_integers,
    "A11 lone reports": lone_reports,
}
