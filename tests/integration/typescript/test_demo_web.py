"""The demo in a browser: a page in Chromium reports, and the tables count every report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from calmstream.cli import main
from tests.support.typescript.package import EDGE, built, chromium

DEADLINE = 60.0
PAGE_SECONDS = 600


@contextmanager
def demo(output: Path, *words: str) -> Iterator[str]:
    """Run the demo in a process of its own; yield the address of its page."""
    command = [sys.executable, "-m", "calmstream", "demo-web", "--no-open", *words]
    with output.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + DEADLINE
        while "the page:" not in output.read_text():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.1)
        yield output.read_text().splitlines()[0].split()[-1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0, output.read_text()
    finally:
        process.kill()
        process.wait()


def play(address: str) -> None:
    """Use the page as a person does; the assertions are in ``demo.test.ts``."""
    program = built() / "browser" / "demo.test.mjs"
    done = subprocess.run(
        ["node", "--no-warnings", "--test", str(program)],
        cwd=EDGE,
        env={**os.environ, "CALMSTREAM_DEMO": address},
        capture_output=True,
        text=True,
        timeout=PAGE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert "# pass 1" in done.stdout


@pytest.mark.slow
@pytest.mark.kafka
def test_a_page_reports_over_a_real_gateway_and_a_real_broker(
    tmp_path: Path, kafka_bootstrap: str
) -> None:
    chromium()
    page = str(built().parent / "dist" / "demo")
    with demo(tmp_path / "log", "--page", page, "--bootstrap", kafka_bootstrap) as address:
        play(address)


def test_without_a_built_page_the_demo_says_how_to_build_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo-web", "--page", str(tmp_path)]) == 2
    assert "make demo-web" in capsys.readouterr().err
