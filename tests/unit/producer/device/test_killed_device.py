"""Check a device whose process is killed at any moment: it reports at most once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
REPORT = """
import os, sys
from pathlib import Path
from calmstream.producer.device.store import FileStore
from tests.support.producer import START, make_plan, unsigned_reporter

folder, n, plan = Path(sys.argv[1]), int(sys.argv[2]), make_plan()
sent = os.open(folder / "sent", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
print("ready", flush=True)
for device in range(n):
    store = FileStore(folder / f"{device}.json")
    report = unsigned_reporter(plan, store, clock=lambda: START * 1000).report({"colour": "red"})
    if report is not None:
        os.write(sent, f"{device}\\n".encode())
"""


def start(folder: Path, devices: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", REPORT, str(folder), str(devices)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    ("times", "devices"), [(3, 150), pytest.param(8, 400, marks=pytest.mark.slow)]
)
def test_a_killed_device_never_reports_again(tmp_path: Path, times: int, devices: int) -> None:
    dice = random.Random(7)
    kills = 0
    for _ in range(times):
        with start(tmp_path, devices) as process:
            time.sleep(dice.uniform(0.0, 0.05))
            process.kill()
            kills += process.wait(30) != 0
    assert kills, "every process was through before it was killed"
    with start(tmp_path, devices) as process:
        assert process.wait(60) == 0
    sent = Counter((tmp_path / "sent").read_text().split())
    assert set(sent.values()) == {1}
    # A ledger is written before its report can leave: a kill in between costs that one report.
    assert devices - kills <= len(sent) <= devices
