"""``calmstream serve`` as a process of its own over a real broker, from before the topics on."""

from __future__ import annotations

import secrets
import signal
import time
from pathlib import Path
from threading import Event

import httpx
import numpy as np
import orjson
import pytest

from calmstream.broker.kafka import connect
from calmstream.cli import main
from calmstream.estimators.plan import Plan
from calmstream.local_service import LocalService
from calmstream.producer.simulation.produce import produce
from tests.support.ports import free_port
from tests.support.publisher import published_plan
from tests.support.service.processes import Process, run, until

DEADLINE = 90.0
WINDOWS = 200
TOKEN = secrets.token_hex(16)


def new_plan() -> Plan:
    start = int(time.time())
    more = {"partitions": 1, "grace": 10, "skew": 1}
    return published_plan(start=start, window=3, windows=WINDOWS, groups=3, **more)


@pytest.mark.slow
@pytest.mark.kafka
def test_a_page_can_be_open_before_the_first_report(kafka_bootstrap: str, tmp_path: Path) -> None:
    plan, namespace, port = new_plan(), f"serve-{secrets.token_hex(4)}", free_port()
    (tmp_path / "plan.json").write_bytes(plan.to_bytes())
    (tmp_path / "token").write_text(TOKEN + "\n")
    place = ("--plan", tmp_path / "plan.json", "--bootstrap", kafka_bootstrap)
    place += ("--namespace", namespace)
    server = Process(
        tmp_path / "log", "serve", *place, "--port", port, "--token-file", tmp_path / "token"
    )
    broker = connect(kafka_bootstrap)
    service = LocalService(plan, broker, namespace)
    client = httpx.Client(
        base_url=f"http://127.0.0.1:{port}/v1/plans/{plan.name}",
        headers={"authorization": f"Bearer {TOKEN}"},
        timeout=DEADLINE,
    )

    def windows() -> tuple[int, str]:
        try:
            found = client.get("/windows")
        except httpx.TransportError:
            return 0, ""
        return found.status_code, found.json().get("detail", "")

    try:
        until("a remedy", lambda: "create it: calmstream topics" in windows()[1], DEADLINE)
        assert windows()[0] == 503
        service.start()
        until("the topics are found", lambda: windows()[0] == 200, DEADLINE)
        codes = np.random.default_rng(3).integers(2, size=(3000, 3)).astype(np.uint16)
        sent = produce(plan, broker, service.names, codes, rate=1500, stop=Event())
        assert sent.error is None

        def counted() -> int:
            return sum(one["reports"] for one in client.get("/windows").json()["finals"])

        until("all reports are final", lambda: counted() >= sent.sent, DEADLINE)
        assert counted() == sent.sent
        last = client.get("/windows").json()["newest"]
        question = {"attributes": "a2,a0", "windows": f"0..{last}"}
        table = client.get("/tables", params=question).json()
        assert sum(table["table"]) == pytest.approx(1.0)
        asked = run(
            "query",
            *place,
            *("--attributes", "a2,a0", "--format", "json", "--windows", f"0..{last}"),
        )
        assert orjson.loads(asked.stdout) == table
        server.signal(signal.SIGTERM)
        assert server.wait(DEADLINE) == 0
    finally:
        service.stop()
        server.child.kill()
        server.child.wait()
        client.close()
        broker.close()
    assert TOKEN not in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--token-file", "none"), "none: No such file or directory"),
        (("--token-file", "short"), "short: expected one token of 16 to 512"),
        (("--port", "99999"), "--port: "),
        (("--allow-host", "https://x"), "--allow-host: expected a name"),
        (("--allow-origin", "x"), "--allow-origin: expected an origin"),
    ],
)
def test_wrong_usage_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, str], message: str
) -> None:
    (tmp_path / "plan.json").write_bytes(new_plan().to_bytes())
    (tmp_path / "short").write_text("secret")
    option, value = words
    if option == "--token-file":
        value = str(tmp_path / value)
    plan = str(tmp_path / "plan.json")
    assert main(["serve", "--plan", plan, "--bootstrap", "localhost:1", option, value]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert "secret" not in line
