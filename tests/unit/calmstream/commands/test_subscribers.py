"""Check that wrong arguments of subscribers and producers give one line, before any connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from calmstream.cli import main
from calmstream.producer.simulation.produce import ProduceSummary
from tests.support.faulty_broker import FaultyBroker
from tests.support.publisher import published_plan

NOBODY = ["--bootstrap", "127.0.0.1:1"]


@pytest.fixture
def plan(tmp_path: Path) -> str:
    path = tmp_path / "plan.json"
    path.write_bytes(published_plan().to_bytes())
    return str(path)


@pytest.mark.parametrize(
    ("summary", "code", "message"),
    [
        (ProduceSummary(9, sent=9), 0, ""),
        (ProduceSummary(9, sent=9, expired=True), 0, ""),
        (
            ProduceSummary(9, sent=2, missing=7, expired=True),
            3,
            "7 reports were not made: the plan ended",
        ),
        (
            ProduceSummary(9, sent=8, missing=1, expired=True),
            3,
            "1 report was not made: the plan ended",
        ),
        (ProduceSummary(9, sent=2, missing=7), 0, "7 reports were not made\n"),
        (
            ProduceSummary(9, sent=1, failed=1, missing=7, expired=True),
            1,
            "7 reports were not made: the",
        ),
    ],
)
def test_a_run_that_lacks_reports_reports_it(
    summary: ProduceSummary,
    code: int,
    message: str,
    plan: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "people.csv").write_text("a0,a1,a2\n0,1,0\n")
    monkeypatch.setattr("calmstream.commands.produce.kafka", lambda _: FaultyBroker())
    monkeypatch.setattr("calmstream.commands.produce.produce", lambda *_, **__: summary)
    words = ["produce", "--plan", plan, *NOBODY, "--records", str(tmp_path / "people.csv")]
    assert main(words) == code
    shown = capsys.readouterr().out
    assert message in shown
    assert ("not made" in shown) == bool(message)
