"""Attacks of one HTTP client on gateway and ``serve``, with an honest client beside it.

The server runs in a process of its own, in a memory cgroup of the chart's limit where the machine
has cgroups (else with a limit of its address space). The attacker works for ``SECONDS``; an honest
client of the same address asks once a second, each time over a new connection. Printed are the most
memory of the server, the longest wait of the honest client and how many of its requests got no
answer.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import resource
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.attacks.attack import Attack, Verdict

SECONDS = 15.0
TIMEOUT_SECONDS = 10.0
LONGEST_WAIT = 2.0
MOST_MEMORY = {"gateway": 300 << 20, "serve": 500 << 20}
CHART_MEMORY = {"gateway": 1 << 30, "serve": 2 << 30}
ROOT = Path(__file__).resolve().parents[2]
CGROUPS = Path("/sys/fs/cgroup/memory")

GATEWAY = """
import sys, tempfile
from pathlib import Path
from tests.support.gateway.running import running
with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as found:
    print(found.gateway.port, found.plan.digest, found.plan.window_at(__import__("time").time_ns()
          // 10**6), flush=True)
    sys.stdin.read()
"""
SERVE = """
import sys, time
from calmstream.consumer.read.formats import FORMATS
from calmstream.consumer.read.history import History
from tests.support.serving import filled, serving_bench
bench = filled(windows=1)
real = History.ask
def ask(self, *given, **options):  # a question about another range of windows takes so long
    time.sleep(0.3)
    return real(self, *given, **options)
FORMATS["csv"] = lambda *_: b"0,1,2,3\\n" * (7 << 17)
with serving_bench(bench) as found:
    History.ask = ask
    print(found.server.port, bench.plan.name, 0, flush=True)
    sys.stdin.read()
"""
SCRIPTS = {"gateway": GATEWAY, "serve": SERVE}


@dataclass
class Server:
    """A running server: its process, its port, and what the script said about its plan."""

    process: subprocess.Popen[str]
    port: int
    plan: str
    window: int
    group: Path | None

    def memory(self) -> int:
        if self.group is not None:
            return int((self.group / "memory.max_usage_in_bytes").read_text())
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next((one for one in status.splitlines() if one.startswith("VmHWM")), "VmHWM: 0")
        return int(line.split()[1]) << 10


@contextlib.contextmanager
def server(role: str) -> Iterator[Server]:
    """Run a server under the chart's limit."""
    group = CGROUPS / f"calmstream-attack-{os.getpid()}-{time.monotonic_ns()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(CHART_MEMORY[role]))
        where: Path | None = group
    except OSError:
        where = None

    def enter() -> None:
        if where is not None:
            (where / "cgroup.procs").write_text(str(os.getpid()))
        else:
            resource.setrlimit(resource.RLIMIT_DATA, (CHART_MEMORY[role],) * 2)

    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPTS[role]],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=enter,  # noqa: PLW1509 - no thread is running yet
    )
    try:
        assert process.stdout is not None
        words: list[str] = []
        while len(words) != 3 or not words[0].isdigit():
            words = process.stdout.readline().split()
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield Server(process, int(words[0]), words[1], int(words[2]), where)
    finally:
        process.kill()
        process.wait()
        if where is not None:
            with contextlib.suppress(OSError):
                where.rmdir()


@dataclass
class Honest:
    """A client that asks once a second, over a new connection each time."""

    role: str
    server: Server
    waits: list[float] = field(default_factory=list)
    failed: int = 0

    def run(self, until: float) -> None:
        while (began := time.monotonic()) < until:
            self.failed += not self._ask(len(self.waits))
            self.waits.append(time.monotonic() - began)
            time.sleep(max(0.0, 1.0 - self.waits[-1]))

    def _ask(self, number: int) -> bool:
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.server.port, timeout=TIMEOUT_SECONDS
        )
        try:
            if self.role == "gateway":
                path, body = f"/v1/plans/{self.server.plan}/reports", report(self.server, number)
                connection.request("POST", path, body, {"content-type": "application/json"})
            else:
                group = f"a0=0;a1={'1|0' if number % 2 else '0|1'}"
                path = f"/v1/plans/{self.server.plan}/tables?attributes=a0,a1&group={group}"
                connection.request("GET", path)
            return connection.getresponse().status in {200, 202, 422}
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def report(to: Server, value: int) -> bytes:
    one = {"v": "1.0", "plan": to.plan, "group": 0, "period": to.window, "n": 1}
    return json.dumps({"id": f"{value:032x}", "report": one | {"columns": {"v": [value]}}}).encode()


def connect(to: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", to.port), 2)


Work = Callable[[Server, float], None]


def hold(first: bytes, number: int, rate: int = 0) -> Work:
    """Return an attack that opens connections, sends the same on each, and reads little of it."""

    def work(to: Server, until: float) -> None:
        payload = first.replace(b"PLAN", to.plan.encode())
        held: list[socket.socket] = []
        while time.monotonic() < until:
            held = [one for one in held if _alive(one, rate)]
            for _ in range(min(number - len(held), 200)):
                with contextlib.suppress(OSError):
                    one = connect(to)
                    one.settimeout(2)
                    one.sendall(payload)
                    one.setblocking(False)
                    held.append(one)
            time.sleep(0.1 if len(held) < number else 1.0)
        for one in held:
            one.close()

    return work


def _alive(connection: socket.socket, rate: int) -> bool:
    try:
        return bool(connection.recv(rate)) if rate else True
    except BlockingIOError:
        return True
    except OSError:
        return False


def flood(request: bytes, connections: int) -> Work:
    """Return an attack that sends requests without reading any answer."""

    def work(to: Server, until: float) -> None:
        block = request * (65536 // len(request))
        selector = selectors.DefaultSelector()
        opened = 0
        while time.monotonic() < until:
            while opened < connections:
                with contextlib.suppress(OSError):
                    one = connect(to)
                    one.setblocking(False)
                    selector.register(one, selectors.EVENT_WRITE)
                opened += 1
            for key, _ in selector.select(0.2):
                try:
                    key.fileobj.send(block)  # type: ignore[union-attr]
                except BlockingIOError:
                    continue
                except OSError:
                    selector.unregister(key.fileobj)
                    opened -= 1

    return work


def leave(number: int) -> Work:
    """Return an attack that asks different questions and does not wait for any answer."""

    def work(to: Server, until: float) -> None:
        for one in range(number):
            path = f"/v1/plans/{to.plan}/tables?attributes=a0&group=x{one}=0|1"
            with (
                contextlib.suppress(OSError),
                connect(to) as connection,
            ):
                connection.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        time.sleep(max(0.0, until - time.monotonic()))

    return work


def begun(stated: int, sent: int) -> bytes:
    """Return a request whose body does not arrive as a whole."""
    head = (
        "POST /v1/plans/PLAN/reports HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/json\r\ncontent-length: {stated}\r\n\r\n"
    )
    return head.encode() + b" " * sent


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


CSV = get("/v1/plans/PLAN/tables?attributes=a0&format=csv")
WORKS: dict[str, tuple[str, Work]] = {
    "A12 requests without reading": ("gateway", flood(get("/v1/plans"), 50)),
    "A12 requests without reading (results)": ("serve", flood(get("/v1/plans"), 50)),
    "A13 300 slow readers of 7 MiB": ("serve", hold(CSV, 300, 2000)),
    "A13 900 slow readers of 7 MiB": ("serve", hold(CSV, 900, 2000)),
    "A14 200 questions, nobody waits": ("serve", leave(200)),
    "A15 2,050 unfinished small bodies": ("gateway", hold(begun(99, 1), 2050)),
    "A15 4,100 idle connections": ("gateway", hold(b"", 4100)),
    "A15 16 bodies of 4 MiB - 1": ("gateway", hold(begun(4 << 20, (4 << 20) - 1), 16)),
    "A15 1,030 connections (results)": ("serve", hold(b"", 1030)),
}


@dataclass(frozen=True)
class Outcome:
    """What an attack did: most memory, longest wait, requests without answer of how many."""

    memory: int
    wait: float
    failed: int
    asked: int
    alive: bool


def measure(role: str, work: Work) -> Outcome:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8192), hard), hard))
    with server(role) as found:
        honest, until = Honest(role, found), time.monotonic() + SECONDS
        attacker = threading.Thread(target=work, args=(found, until), daemon=True)
        attacker.start()
        time.sleep(1.0)
        honest.run(until)
        alive = found.process.poll() is None
        memory = found.memory()
    attacker.join(TIMEOUT_SECONDS)
    return Outcome(memory, max(honest.waits), honest.failed, len(honest.waits), alive)


def attack(name: str) -> Attack:
    role, work = WORKS[name]

    def attempt() -> Verdict:
        found = measure(role, work)
        held = found.alive and not found.failed and found.wait <= LONGEST_WAIT
        return Verdict(held and found.memory <= MOST_MEMORY[role], line(found))

    return attempt


def line(found: Outcome) -> str:
    end = "" if found.alive else "; the server was killed"
    return (
        f"{found.memory >> 20} MiB; longest wait {found.wait:.1f} s; "
        f"{found.failed} of {found.asked} requests failed{end}"
    )


ATTACKS = {name: attack(name) for name in WORKS}
