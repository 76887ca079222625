"""Run the demo: every report is counted once, and the tables are near the truth."""

from __future__ import annotations

import json
import os
import signal
import threading

import httpx
import pytest

from calmstream.cli import main
from calmstream.commands import demo
from calmstream.common.errors import FatalError
from tests.support.ports import free_port
from tests.support.service.processes import until

FIELDS = (
    "reports accepted rejected windows snapshots method epsilon sse_mean tv_mean uniform_sse "
    "reports_per_second"
)
REPORTS = 100_000  # at a quarter of the pace of `make demo`: a busy machine keeps up


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "WINDOWS", 2)
    monkeypatch.setattr(demo, "WINDOW_SECONDS", 6)
    monkeypatch.setattr(demo, "GRACE_SECONDS", 1)


def outcome(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["demo", "--json", "--reports", str(REPORTS), *words]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    result: dict[str, object] = json.loads(line)
    return result


def check(result: dict[str, object]) -> None:
    assert set(result) == set(FIELDS.split())
    assert result["reports"] == REPORTS
    # A machine that pauses for seconds may lose some: this is not a test of its speed.
    assert 0.9 * REPORTS < result["accepted"] <= REPORTS  # type: ignore[operator]
    # A part of what it lost may be rejected as late; nothing else is.
    assert result["rejected"] == 0 or result["accepted"] < REPORTS  # type: ignore[operator]
    assert (result["windows"], result["method"], result["epsilon"]) == (2, "noise-aware", 2.0)
    assert result["snapshots"] >= 4  # type: ignore[operator] # two finals and two totals
    assert 0 < result["sse_mean"] < result["uniform_sse"] / 10  # type: ignore[operator]


@pytest.mark.slow
@pytest.mark.usefixtures("_short")
def test_over_the_embedded_broker(capsys: pytest.CaptureFixture[str]) -> None:
    check(outcome(capsys))


@pytest.mark.slow
@pytest.mark.usefixtures("_short")
def test_with_a_page_that_stays_open(capsys: pytest.CaptureFixture[str]) -> None:
    port, seen = free_port(), []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def look() -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            until("the last window", lambda: newest(client) == 1, 120)
            table = "/v1/plans/demo/tables?attributes=sex,income"  # 503: still computed
            until("its table", lambda: client.get(table).status_code == 200, 120)
            seen.append(client.get("/").status_code)
            until("the demo waits", lambda: signal.getsignal(signal.SIGTERM) != before, 60)
        os.kill(os.getpid(), signal.SIGTERM)

    before = handlers[signal.SIGTERM]
    looking = threading.Thread(target=look)
    looking.start()
    try:
        assert main(["demo", "--serve", "--port", str(port), "--reports", "20000"]) == 0
    finally:
        looking.join(60)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert seen == [200]
    assert f"the page stays open: http://127.0.0.1:{port}" in capsys.readouterr().out


def test_a_part_that_fails_while_the_page_is_open_ends_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = FatalError("the topics are gone")
    monkeypatch.setattr(demo, "_run", lambda run, *_, **__: setattr(run.service, "failure", error))
    assert main(["demo", "--serve", "--reports", "1000"]) == 1
    assert "the topics are gone" in capsys.readouterr().err


def newest(client: httpx.Client) -> int | None:
    try:
        found = client.get("/v1/plans/demo/windows")
    except httpx.TransportError:
        return None
    return found.json()["newest"] if found.status_code == 200 else None


def test_devices_spread_over_what_is_left_of_the_plan() -> None:
    domain, _ = demo.adult()
    plan = demo.draw_plan(domain, 1000, "calm")
    start, whole = plan.start * 1000, plan.windows * plan.window
    assert demo.pacing_seconds(plan, start - 900) == whole - plan.window / 2
    assert demo.pacing_seconds(plan, start + 5000) == whole - plan.window / 2 - 5
    assert demo.pacing_seconds(plan, start + whole * 1000) == 1.0


def test_the_shipped_table_is_the_one_described() -> None:
    domain, codes = demo.adult()
    assert domain.cardinalities == (9, 16, 7, 15, 6, 5, 2, 2)
    assert codes.shape == (32_561, 8)
