"""A page in a browser reports to a gateway, and the tables of a real Kafka show it."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.subscribe import subscribe
from calmstream.estimators.plan.document import read_plan
from calmstream.estimators.wire.snapshot import Kind
from tests.support.ports import free_port
from tests.support.service.processes import Process, run, until
from tests.support.typescript.package import built, chromium
from tests.support.typescript.package import run as run_node

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

DEVICES = 300
SIGMAS = 6
DEADLINE = 120.0
DOMAIN = [
    {"name": "region", "labels": ["EU", "US", "other"], "other": "other"},
    {"name": "theme", "labels": ["dark", "light"]},
]


class Place:
    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap, self.directory = bootstrap, directory
        self.namespace = f"page-{secrets.token_hex(4)}"
        self.where = ["--bootstrap", bootstrap, "--namespace", self.namespace]
        self.processes: list[Process] = []

    def path(self, name: str) -> Path:
        return self.directory / name

    def command(self, *arguments: object) -> str:
        done = run(*arguments, settings={"CALMSTREAM_HTTP_PORT": "-1"})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sign_a_plan(self) -> None:
        self.path("domain.json").write_text(json.dumps(DOMAIN))
        for name in ("root", "signing"):
            self.command("keys", "new", "--out", self.path(name))
        today, tomorrow = (
            time.strftime("%Y-%m-%d", time.gmtime(time.time() + days * 86_400)) for days in (-1, 1)
        )
        self.command(
            *("keys", "certify", "--root", self.path("root"), "--key", self.path("signing.pub")),
            *("--from", today, "--until", tomorrow, "--owner", "Example Ltd"),
            *("--out", self.path("certificate")),
        )
        self.command(
            *("plan", self.path("domain.json"), "--epsilon", 4, "--users", 100, "--k", 2),
            *("--window", "10s", "--grace", "8s", "--skew", "2s", "--lifetime", "1h"),
            *("--name", "page", "--purpose", "tests"),
            *("--lineage", f"page@{self.path('root.pub')}", "--out", self.path("plan.json")),
        )
        self.path("plans").mkdir()
        self.command(
            *("sign", self.path("plan.json"), "--key", self.path("signing")),
            *("--certificate", self.path("certificate"), "--out", self.path("plans/page.json")),
        )

    def start(self, name: str, *arguments: object, **settings: str) -> Process:
        process = Process(self.path(f"{name}.log"), name, *arguments, settings=settings)
        self.processes.append(process)
        process.ready()
        return process


@pytest.fixture
def place(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Place]:
    made = Place(kafka_bootstrap, tmp_path)
    yield made
    for process in made.processes:
        process.kill()


def test_what_devices_in_a_page_report_becomes_tables(place: Place) -> None:
    chromium()
    program = built() / "browser" / "devices.mjs"
    place.sign_a_plan()
    plan = read_plan(place.path("plan.json").read_bytes())
    place.command("topics", "--plan", place.path("plan.json"), *place.where)
    place.start("consume", "--plan", place.path("plan.json"), *place.where)
    port, origin = free_port(), free_port()
    place.start(
        *("gateway", "--plans", place.path("plans"), "--roots", place.path("root.pub")),
        *("--spool", place.path("spool"), "--port", port, *place.where),
        CALMSTREAM_ORIGINS=f"http://127.0.0.1:{origin}",
    )
    root = place.path("root.pub").read_text().strip()
    said = run_node(str(program), f"http://127.0.0.1:{port}", root, str(DEVICES), str(origin))
    found = json.loads(said)
    assert (found["taken"], found["refused"], found["left"]) == (DEVICES, [], 0)

    totals: list[Snapshot] = []

    def counted() -> bool:
        totals[:] = subscribe(
            plan, place.bootstrap, kinds=[Kind.TOTAL], follow=False, namespace=place.namespace
        )
        return bool(totals) and totals[-1].manifest.reports == DEVICES

    until("every report of the page is counted", counted, DEADLINE, pause=1.0)
    table = totals[-1].marginal("region", "theme")
    assert np.all(np.abs(table.table - truth()) <= SIGMAS * table.stderr)
    assert np.any(np.abs(table.table - truth()[::-1]) > SIGMAS * table.stderr)


def truth() -> Any:
    """Proportions of regions and themes in `edge/typescript/test/browser/devices.ts`."""
    counts = np.zeros((3, 2))
    for number in range(DEVICES):
        region = 0 if number % 10 < 6 else 1 if number % 10 < 9 else 2
        counts[region, 0 if number % 4 else 1] += 1
    return counts / DEVICES
