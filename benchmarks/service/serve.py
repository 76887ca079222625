"""Measure ``calmstream serve``: 100 clients at once, and a fresh range of windows over HTTP.

    python -m benchmarks.service.serve crowd
    python -m benchmarks.service.serve fresh

``crowd``: clients that each keep a connection and ask one question after another, of one server
process: the same few tables (kept answers), tables that are not modified (304), tables that nobody
asked for before (computed from a fitted model), a series of published tables, and the list of
windows. ``fresh``: the first answer about a range that was not asked for, and the next 50 about it.

The server has a broker in its own process, with 24 windows of 10,000 devices, items of Kosarak,
epsilon 1. Clients and server share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.service.later_answers import QUESTIONS, Filler, make_plan, peak_mb, records_of
from calmstream.broker.in_process import InProcessBroker
from calmstream.consumer.runtime.service import configure_logging
from calmstream.local_results import local_results

CLIENTS = 100
WINDOWS = 24


def serve(d: int, method: str) -> None:
    """Fill a broker and serve until stdin is closed; print address and plan first."""
    configure_logging("error")
    plan, broker = make_plan(d, method, WINDOWS), InProcessBroker()
    filler = Filler(plan, broker, records_of(d), tables=True)
    for window in range(WINDOWS):
        filler.window(window)
    filler.finish()
    with local_results(plan, broker, "calmstream", 0) as address:
        print(address.rpartition(":")[2], plan.name, flush=True)
        sys.stdin.read()
        print(f"{peak_mb():.0f}", flush=True)


@contextmanager
def server(d: int, method: str) -> Iterator[tuple[int, str]]:
    """Run a server in a process of its own; yield port and plan; print its memory afterwards."""
    command = [sys.executable, "-m", "benchmarks.service.serve", "server"]
    command += ["--attributes", str(d), "--methods", method]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port, name = process.stdout.readline().split()
        yield int(port), name
        memory, _ = process.communicate()
        print(f"  peak memory of the server: {memory.strip()} MB", flush=True)


class Client:
    """One connection that asks one question after another."""

    def __init__(self, port: int, name: str) -> None:
        self._port = port
        self._base = f"/v1/plans/{name}"

    async def open(self) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def get(self, path: str, etag: str = "") -> tuple[int, str, float]:
        """Return status, ETag and seconds of one request."""
        extra = f"if-none-match: {etag}\r\n" if etag else ""
        began = time.perf_counter()
        head = f"GET {self._base}{path} HTTP/1.1\r\nhost: localhost\r\n{extra}\r\n"
        self._writer.write(head.encode())
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        await self._reader.readexactly(int(headers.get("content-length", "0")))
        status = int(lines[0].split()[1])
        return status, headers.get("etag", ""), time.perf_counter() - began

    def close(self) -> None:
        """Disconnect."""
        self._writer.close()


def paths(kind: str, d: int) -> Iterator[str]:
    """Yield the addresses that the clients of a crowd ask for, without end."""
    pairs = [f"a{i},a{j}" for i, j in itertools.combinations(range(d), 2)]
    if kind in ("kept", "not modified"):
        yield from itertools.cycle(f"/tables?attributes={pair}" for pair in pairs[:10])
    elif kind == "computed":
        for i, j, k in itertools.cycle(itertools.permutations(range(d), 3)):
            yield f"/tables?attributes=a{i},a{j},a{k}&given=a{i}"
    elif kind == "series":
        yield from itertools.cycle(f"/series?attributes={pair}&windows=last:24" for pair in pairs)
    else:
        yield from itertools.repeat("/windows")


async def ready(client: Client) -> None:
    """Wait until the topics are read and all windows are fitted."""
    for _ in range(600):
        if (await client.get("/tables?attributes=a0"))[0] == 200:
            return
        await asyncio.sleep(0.1)
    raise SystemExit("the server is not ready after a minute")


async def crowd(port: int, name: str, d: int, kind: str, requests: int) -> None:
    """Let all clients ask at once; print rate and times."""
    clients = [Client(port, name) for _ in range(CLIENTS)]
    await asyncio.gather(*(client.open() for client in clients))
    await ready(clients[0])
    questions, etags = paths(kind, d), dict[str, str]()
    if kind != "computed":
        for path in itertools.islice(paths(kind, d), 40):
            etags[path] = (await clients[0].get(path))[1]
    seconds: list[float] = []
    statuses: dict[int, int] = {}

    async def ask(client: Client) -> None:
        for _ in range(requests // CLIENTS):
            path = next(questions)
            known = etags.get(path, "") if kind == "not modified" else ""
            status, _, took = await client.get(path, known)
            seconds.append(took)
            statuses[status] = statuses.get(status, 0) + 1

    began = time.perf_counter()
    await asyncio.gather(*map(ask, clients))
    rate = len(seconds) / (time.perf_counter() - began)
    p50, p99 = np.percentile(seconds, [50, 99]) * 1000
    found = ", ".join(f"{status}: {count:,}" for status, count in sorted(statuses.items()))
    print(
        f"  {kind:13} {rate:7,.0f} requests/s, median {p50:6.1f} ms, 99 % {p99:7.1f} ms; {found}",
        flush=True,
    )
    for client in clients:
        client.close()


async def fresh(port: int, name: str, d: int) -> None:
    """Ask about one range that was not asked for."""
    client, random = Client(port, name), np.random.default_rng(5)
    await client.open()
    await ready(client)
    status, _, first = await client.get("/tables?attributes=a0&windows=3..14")
    assert status == 200, status
    times = []
    for _ in range(QUESTIONS):
        names = [f"a{i}" for i in random.choice(d, int(random.integers(1, 4)), replace=False)]
        given = f"&given={names[0]}" if len(names) > 1 and random.random() < 0.5 else ""
        found = await client.get(f"/tables?attributes={','.join(names)}&windows=3..14{given}")
        assert found[0] == 200, found
        times.append(found[2])
    print(
        f"  first {first:.2f} s; next {QUESTIONS}: {sum(times):.2f} s, median "
        f"{1000 * median(times):.1f} ms, slowest {1000 * max(times):.1f} ms",
        flush=True,
    )
    client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("crowd", "fresh", "server"))
    parser.add_argument("--attributes", default="")
    parser.add_argument("--methods", default="noise-aware,calm")
    parser.add_argument("--requests", type=int, default=10_000)
    args = parser.parse_args()
    sizes = args.attributes or {"crowd": "16", "fresh": "8,16,32,64"}.get(args.what, "16")
    for method, size in itertools.product(args.methods.split(","), sizes.split(",")):
        d = int(size)
        if args.what == "server":
            serve(d, method)
            return
        print(f"{method}, {d} attributes", flush=True)
        with server(d, method) as (port, name):
            if args.what == "fresh":
                asyncio.run(fresh(port, name, d))
                continue
            for kind in ("kept", "not modified", "computed", "series", "windows"):
                asyncio.run(crowd(port, name, d, kind, args.requests))


if __name__ == "__main__":
    main()
