"""Requests a second of one gateway process, and their latency, beside what bounds it.

``python -m benchmarks.service.gateway`` needs wrk (Debian: apt-get install wrk). In one run, each
for some seconds with the same load: a bare uvicorn application that reads the body and answers 202;
the gateway without making files durable; the gateway. Every request holds one report with an id of
its own. Batches go to a broker in the server's memory. The server and wrk have a core each where
there are two.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from calmstream.consumer.runtime.service import configure_logging
from calmstream.producer.gateway.durable import files
from tests.support.gateway.running import running
from tests.support.gateway.spool_world import counting_plan
from tests.support.ports import free_port

WRK = r"""
local plan, thread = "%s", 0
function setup(t) t:set("number", thread); thread = thread + 1 end
function init(args)
  math.randomseed(os.time() + 1000 * number)
  prefix = string.format("%%08x%%08x", math.random(0, 2^31 - 1), math.random(0, 2^31 - 1))
  count = 0
end
function request()
  count = count + 1
  local body = string.format('{"id":"%%s%%016x","report":{"v":"1.0","plan":"%%s","group":0,' ..
    '"period":0,"n":1,"columns":{"v":[%%d]}}}', prefix, count, plan, count %% 4096)
  return wrk.format("POST", nil, {["content-type"] = "application/json"}, body)
end
function done(summary, latency, requests)
  io.write(string.format("RESULT %%d %%d %%d %%d %%d\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    summary.errors.status + summary.errors.timeout + summary.errors.connect))
end
"""
MODES = {
    "bare": "bare uvicorn",
    "volatile": "gateway, not durable",
    "durable": "gateway, durable",
}


async def bare(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
    """Read the body and answer as the gateway does, without looking at it."""
    if scope["type"] == "http":
        await receive()
        head = [(b"content-type", b"application/json"), (b"content-length", b"76")]
        await send({"type": "http.response.start", "status": 202, "headers": head})
        await send({"type": "http.response.body", "body": b"x" * 76})


def serve(mode: str, directory: Path) -> None:
    configure_logging("error")
    if mode == "bare":
        port = free_port()
        print(port, "none", flush=True)
        uvicorn.run(bare, port=port, access_log=False, log_level="error", lifespan="off")
        return
    if mode == "volatile":
        files.LogFile.sync = lambda _: None  # type: ignore[method-assign]
    plan = counting_plan(7200, 60, 2, int(time.time()) - 5)
    with running(directory, plan, min_batch=50, linger=1.0) as found:
        print(found.gateway.port, plan.digest, flush=True)
        sys.stdin.read()


@contextmanager
def served(mode: str, directory: str, core: list[str]) -> Iterator[tuple[int, int, str]]:
    """Run a server in a process of its own; yield its process id, port and plan."""
    command = [*core, sys.executable, "-m", "benchmarks.service.gateway"]
    with subprocess.Popen(
        [*command, "--serve", mode, "--directory", directory],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        port, plan = child.stdout.readline().split()
        time.sleep(1)  # uvicorn says its port before it listens
        try:
            yield child.pid, int(port), plan
        finally:
            child.terminate()


def load(address: str, plan: str, seconds: int, connections: int, core: list[str]) -> list[int]:
    """Return requests, microseconds, the two percentiles of latency, and errors."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(WRK % plan)
        script.flush()
        options = ["--threads", "1", "--connections", str(connections), "--latency"]
        options += ["--duration", f"{seconds}s", "--script", script.name]
        done = subprocess.run(
            [*core, "wrk", *options, address], capture_output=True, text=True, check=True
        )
    match = re.search(r"RESULT (.*)", done.stdout)
    assert match is not None, done.stdout
    return [int(number) for number in match[1].split()]


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process: less moved by other load than the clock."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--directory", type=Path, help="a directory on the disk to measure")
    parser.add_argument("--serve", choices=MODES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve, args.directory)
        return
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed (Debian: apt-get install wrk)")
    several = (os.cpu_count() or 1) > 1
    own, other = (["taskset", "--cpu-list", str(n)] if several else [] for n in (0, 1))
    print(f"{args.seconds} s each, {args.connections} connections, one report a request, one core")
    print(f"{'':24}{'requests/s':>12}{'per CPU s':>11}{'p50 ms':>9}{'p99 ms':>9}{'errors':>8}")
    for mode, name in MODES.items():
        with (
            tempfile.TemporaryDirectory(dir=args.directory) as directory,
            served(mode, directory, own) as (pid, port, plan),
        ):
            address = f"http://127.0.0.1:{port}/v1/plans/{plan}/reports"
            load(address, plan, 2, args.connections, other)
            before = cpu_seconds(pid)
            found = load(address, plan, args.seconds, args.connections, other)
            used = cpu_seconds(pid) - before
        requests, micros, p50, p99, errors = found
        print(
            f"{name:24}{requests / (micros / 1e6):12,.0f}{requests / used:11,.0f}"
            f"{p50 / 1000:9.1f}{p99 / 1000:9.1f}{errors:8}"
        )


if __name__ == "__main__":
    main()
