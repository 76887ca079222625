"""Upgrade a namespace and go back: processes of the last release beside one of many plans."""

from __future__ import annotations

import io
import signal
import subprocess
import tarfile
import time
import uuid
from pathlib import Path

import pytest

from calmstream.estimators.plan import Plan
from tests.support.service.processes import Process, run, until
from tests.support.service.several_plans import WINDOW, Sender, compare, finals, small_plan

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[3]
LAST_RELEASE = "eba4d3e"
"""The last version without folders of plans."""


@pytest.fixture(scope="module")
def last_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the source of the last release."""
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", LAST_RELEASE], capture_output=True, check=False
    )
    if packed.returncode != 0:
        pytest.skip(f"the repository has no history: {packed.stderr.decode().strip()}")
    place = tmp_path_factory.mktemp("last-release")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(place, filter="data")
    return place


def test_workers_of_the_last_release_and_of_this_one_count_together_exactly(
    kafka_bootstrap: str, tmp_path: Path, last_release: Path
) -> None:
    namespace = f"upgrade-{uuid.uuid4().hex[:8]}"
    where = ("--bootstrap", kafka_bootstrap, "--namespace", namespace)
    old = {"PYTHONPATH": str(last_release)}
    plans = [small_plan("one"), small_plan("two")]
    folder = tmp_path / "plans"
    folder.mkdir()
    started: list[Process] = []
    for plan in plans:
        (folder / f"{plan.name}.json").write_bytes(plan.to_bytes())
        given = ("--plan", folder / f"{plan.name}.json", *where)
        made = run("topics", *given, settings=old)
        assert made.returncode == 0, made.stderr
        assert "counts" not in made.stdout

    def start_old() -> None:
        for plan in plans:
            given = ("--plan", folder / f"{plan.name}.json", *where)
            log = tmp_path / f"{plan.name}-{len(started)}.log"
            started.append(Process(log, "consume", *given, settings=old))
            started[-1].ready(120)

    sender = Sender(kafka_bootstrap, namespace, plans)
    try:
        start_old()
        _await_final(plans[0], kafka_bootstrap, namespace)
        started.append(
            Process(
                tmp_path / "new.log",
                *("consume", "--plans", folder, "--allow-unsigned", "--create-topics", *where),
            )
        )
        new = started[-1]
        new.ready(120)
        time.sleep(3 * WINDOW)  # both versions count and publish
        assert all(process.alive() for process in started)
        started[0].kill()
        started[1].signal(signal.SIGTERM)
        assert started[1].wait(60) == 0, started[1].tail()
        time.sleep(2 * WINDOW)
        start_old()  # the way back
        time.sleep(2 * WINDOW)
        new.signal(signal.SIGTERM)
        assert new.wait(60) == 0, new.tail()
        time.sleep(2 * WINDOW)
        sender.end()
        for plan in plans:
            compare(plan, sender, kafka_bootstrap, namespace)
        assert "quarantine" not in new.log.read_text()
        assert "Traceback" not in "".join(process.log.read_text() for process in started)
    finally:
        for process in started:
            process.kill()
        sender.close()


def _await_final(plan: Plan, bootstrap: str, namespace: str) -> None:
    def some() -> bool:
        return any(reports > 0 for reports in finals(plan, bootstrap, namespace).values())

    until("a final with reports", some, 120, pause=1.0)
