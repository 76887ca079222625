"""Run the commands of the documentation unchanged on a real broker."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.support.docs import ROOT, blocks, run_script
from tests.support.service.processes import free_port

pytestmark = pytest.mark.kafka

PAGES = ["getting-started", pytest.param("operating", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_page_work(name: str, kafka_bootstrap: str, tmp_path: Path) -> None:
    parts = blocks(ROOT / "docs" / f"{name}.md", "test", "kafka")
    assert parts
    words = [part.replace("localhost:9092", kafka_bootstrap) for part in parts]
    done = run_script(words, tmp_path, 120, CALMSTREAM_HTTP_PORT=str(free_port()))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    if name == "getting-started":
        assert "32,561 reports of 32,561 devices acknowledged" in done.stdout
        assert "sex × income" in done.stdout
        assert "conditional:" in done.stdout
        with (tmp_path / "tables.csv").open() as file:
            lines = list(csv.DictReader(file))
        assert {line["kind"] for line in lines} == {"total"}
    assert "partition" in done.stdout
