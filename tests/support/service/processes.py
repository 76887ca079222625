"""Real processes of the product, started as an operator starts them, and waits with deadlines."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import calmstream
from tests.support.ports import free_port
from tests.support.runs import ran

ANSWER_SECONDS = 30.0  # longest time until a running process answers, also where it is starved


def until(
    what: str, condition: Callable[[], object], seconds: float = 60.0, pause: float = 0.05
) -> float:
    """Poll until the condition holds; return the seconds, or fail with ``what`` at the deadline."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"not within {seconds} s: {what}"
        time.sleep(pause)
    return time.monotonic() - began


def run(
    *arguments: object,
    seconds: float = 240,
    settings: dict[str, str] | None = None,
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    own = environment(settings)
    return ran(*command(arguments), code=None, seconds=seconds, env=own, input=stdin)


def command(arguments: Sequence[object], program: Path | None = None) -> list[str]:
    ours = [sys.executable, "-m", "calmstream"] if program is None else [str(program)]
    return [*ours, *map(str, arguments)]


def environment(settings: dict[str, str] | None = None) -> dict[str, str]:
    """Return variables with which a child imports the same product, in any directory.

    The settings of the tests themselves are left out: a release refuses names it does not know.
    """
    product = str(Path(calmstream.__file__).parents[1])
    ours = ("CALMSTREAM_REQUIRE_", "CALMSTREAM_TEST_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return inherited | {"PYTHONPATH": product, "PYTHONSAFEPATH": "1"} | (settings or {})


def post_report(
    port: int, digest: str, report: str | bytes, seconds: float = ANSWER_SECONDS
) -> tuple[int, dict[str, Any]]:
    """Hand a report to a gateway; return status and answer; status 0 if there is no whole one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    given = {"content-type": "application/json"}
    try:
        connection.request("POST", f"/v1/plans/{digest}/reports", report, given)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError):
        return 0, {}
    finally:
        connection.close()


class Process:
    """A long-running command, its output in a file, its metrics on a port.

    ``program`` is an installed command; without it, the present tree runs.
    """

    def __init__(
        self,
        log: Path,
        *arguments: object,
        settings: dict[str, str] | None = None,
        port: int = 0,
        program: Path | None = None,
    ) -> None:
        self.port = port or free_port()
        self.log = log
        given = environment({"CALMSTREAM_HTTP_PORT": str(self.port)} | (settings or {}))
        if program is not None:
            del given["PYTHONPATH"]
        with log.open("ab") as output:
            self.child = subprocess.Popen(
                command(arguments, program), stdout=output, stderr=output, env=given
            )

    def signal(self, number: signal.Signals) -> None:
        self.child.send_signal(number)

    def wait(self, seconds: float) -> int:
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s:\n{self.tail()}") from None

    def kill(self) -> None:
        self.child.kill()
        self.child.wait(ANSWER_SECONDS)

    def tail(self) -> str:
        return self.log.read_text()[-3000:]

    def alive(self) -> bool:
        return self.child.poll() is None

    def page(self, path: str, seconds: float = ANSWER_SECONDS) -> tuple[int, str]:
        """Return status and body of an HTTP page; status 0 while nobody answers."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=seconds) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""

    def metric(self, name: str) -> float:
        """Return the sum of one metric over its labels; 0 before it is exported."""
        lines = self.page("/metrics")[1].splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if line.split("{")[0].split(" ")[0] == name
        )

    def ready(self, seconds: float = 60) -> None:
        def check() -> bool:
            assert self.alive(), f"exited with {self.child.returncode}:\n{self.tail()}"
            return self.page("/readyz")[0] == 200

        until(f"{self.child.args} is ready", check, seconds)
