"""Requests a second of one gateway process, and their latency, beside what bounds it.

``python -m benchmarks.service.gateway`` needs wrk (Debian: apt-get install wrk). In one run, each
for some seconds with the same load: a bare uvicorn application that reads the body and answers 202;
the gateway without making files durable; the gateway. Every request holds one report with an id of
its own. Batches go to a sink that acknowledges at once, so that no broker takes part. The server
and wrk have a core each where there are two. ``--reports N`` sends at least N reports to one
gateway instead, as JSON lines, and shows its memory as they go by.
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.service.gateway_server import MODES
from calmstream.estimators.plan import Plan
from tests.support.gateway.spool_world import LABELS, counting_plan

WRK = r"""
local plan, period = "%s", %d
local thread = 0
function setup(t) t:set("number", thread); thread = thread + 1 end
function init(args)
  math.randomseed(os.time() + 1000 * number)
  prefix = string.format("%%08x%%08x", math.random(0, 2^31 - 1), math.random(0, 2^31 - 1))
  count = 0
end
function request()
  count = count + 1
  local body = string.format('{"id":"%%s%%016x","report":{"v":"1.0","plan":"%%s","group":0,' ..
    '"period":%%d,"n":1,"columns":{"v":[%%d]}}}', prefix, count, plan, period, count %% 4096)
  return wrk.format("POST", nil, {["content-type"] = "application/json"}, body)
end
function done(summary, latency, requests)
  io.write(string.format("RESULT %%d %%d %%d %%d %%d\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    summary.errors.status + summary.errors.timeout + summary.errors.connect))
end
"""


def present_plan(window: int) -> Plan:
    """Return a plan whose first window is the present one."""
    return counting_plan(window, 60, 2, int(time.time()) - 5)


@contextmanager
def served(mode: str, directory: Path, port: int, core: int | None) -> Iterator[int]:
    """Run a server in a process of its own; yield its process id."""
    child = subprocess.Popen(
        [
            *_on(core),
            sys.executable,
            "-m",
            "benchmarks.service.gateway_server",
            mode,
            str(directory),
            str(port),
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(port, b"x" if mode == "bare" else b"digest")
        yield child.pid
    finally:
        child.terminate()
        child.wait(30)


def _await(port: int, expected: bytes) -> None:
    """Wait until the server answers and the answer contains something."""
    deadline, found = time.monotonic() + 60, b""
    while expected not in found:
        assert time.monotonic() < deadline, "the server does not start"
        time.sleep(0.1)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/v1/plans")
            found = connection.getresponse().read()
        except OSError:
            continue
        finally:
            connection.close()


def _on(core: int | None) -> list[str]:
    return [] if core is None else ["taskset", "--cpu-list", str(core)]


def load(plan: Plan, directory: Path, port: int, seconds: int, connections: int) -> list[int]:
    """Return requests, microseconds, the two percentiles of latency, and errors."""
    script = directory / "report.lua"
    script.write_text(WRK % (plan.digest, 0))
    core = 1 if (os.cpu_count() or 1) > 1 else None
    done = subprocess.run(
        [
            *_on(core),
            "wrk",
            "--threads",
            "1",
            "--connections",
            str(connections),
            "--duration",
            f"{seconds}s",
            "--latency",
            "--script",
            str(script),
            f"http://127.0.0.1:{port}/v1/plans/{plan.digest}/reports",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds + 60,
    )
    match = re.search(r"RESULT (.*)", done.stdout)
    assert match is not None, done.stdout
    return [int(number) for number in match[1].split()]


def compare(seconds: int, connections: int, directory: Path) -> None:
    plan = present_plan(7200)
    (directory / "plan.json").write_bytes(plan.to_bytes())
    core = 0 if (os.cpu_count() or 1) > 1 else None
    print(f"{seconds} s each, {connections} connections, one report a request, one core")
    print(f"{'':24}{'requests/s':>12}{'per CPU s':>11}{'p50 ms':>9}{'p99 ms':>9}{'errors':>8}")
    for place, (mode, name) in enumerate(MODES.items()):
        port = 18200 + place
        with served(mode, directory, port, core) as pid:
            load(plan, directory, port, 2, connections)
            before = _cpu_seconds(pid)
            requests, micros, p50, p99, errors = load(plan, directory, port, seconds, connections)
            used = _cpu_seconds(pid) - before
        rate = requests / (micros / 1e6)
        print(
            f"{name:24}{rate:12,.0f}{requests / used:11,.0f}"
            f"{p50 / 1000:9.1f}{p99 / 1000:9.1f}{errors:8}"
        )


def memory(reports: int, directory: Path) -> None:
    """Send reports in requests of 1,000; print the resident memory at every tenth."""
    port = 18210
    plan = counting_plan(60, 20, 10_000, int(time.time()) - 5)
    (directory / "plan.json").write_bytes(plan.to_bytes())
    with served("durable", directory, port, None) as pid:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        began, taken, shown = time.monotonic(), 0, -1
        while taken < reports:
            body = _thousand(plan)
            head = {"content-type": "application/x-ndjson"}
            connection.request("POST", f"/v1/plans/{plan.digest}/reports", body, head)
            answer = connection.getresponse()
            found = answer.read()
            taken += found.count(b'"accepted"')
            if taken * 20 // reports > shown:
                shown = taken * 20 // reports
                disk = sum(f.stat().st_size for f in directory.rglob("*.spool"))
                print(
                    f"{time.monotonic() - began:7.0f} s {taken:12,} reports "
                    f"{_resident(pid) >> 20:6} MiB resident {disk >> 20:6} MiB of spool",
                    flush=True,
                )


def _thousand(plan: Plan) -> bytes:
    period = plan.window_at(int(time.time() * 1000))
    ids = os.urandom(16 * 1000).hex()
    return b"\n".join(
        f'{{"id":"{ids[32 * i : 32 * i + 32]}","report":{{"v":"1.0","plan":"{plan.digest}",'
        f'"group":0,"period":{period},"n":1,"columns":{{"v":[{i % LABELS**2}]}}}}}}'.encode()
        for i in range(1000)
    )


def _cpu_seconds(pid: int) -> float:
    """Return user and system time of a process: less moved by other load than the clock."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--reports", type=int)
    parser.add_argument("--directory", type=Path, help="a directory on the disk to measure")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.directory) as name:
        if args.reports:
            memory(args.reports, Path(name))
        elif shutil.which("wrk") is None:
            sys.exit("wrk is not installed (Debian: apt-get install wrk)")
        else:
            compare(args.seconds, args.connections, Path(name))


if __name__ == "__main__":
    main()
