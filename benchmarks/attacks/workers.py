"""Attacks on a real worker over a real broker, by a sender who may write to a reports topic.

After each, the worker must count an honest report, and memory and disk stay within limits.
"""

from __future__ import annotations

import gzip
import resource
import secrets
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.attacks.attack import Attack, Verdict, body, make_plan, names_of
from calmstream.estimators.plan import Plan
from tests.brokers.native import NativeKafka
from tests.support.batches import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    Row,
    batch,
    encode_rows,
    frame,
    produce,
    varint,
)
from tests.support.service.processes import Process, run

DEADLINE_SECONDS = 20.0  # time within which the worker must count an honest report

BOMB_BYTES = 1536 << 20  # size of the record that the compressed batch becomes

BAD_RECORDS, BAD_BYTES = 65_536, 1600
"""Number and size of the records that the worker rejects; compressed they are 100 kB."""

SPARE_MEMORY = 512 << 20  # bytes of address space that the worker has left when the bomb arrives

TINY = 40_000  # batches of one report in the flood; more than the plan's limit of batches


class Stage:
    """A worker with its own broker and the topics of a plan of one partition."""

    def __init__(self, broker: NativeKafka, directory: Path, plan: Plan) -> None:
        self.plan = plan
        self.broker = broker
        self.reports = names_of(plan).reports(0)
        path = directory / "plan.json"
        path.write_bytes(plan.to_bytes())
        where = ["--plan", path, "--bootstrap", broker.bootstrap]
        done = run("topics", *where)
        assert done.returncode == 0, done.stderr
        self.worker = Process(directory / "worker.log", "consume", *where, "--role", "tally")
        self.worker.ready()

    def send(self, raw: bytes) -> None:
        produce(self.broker.bootstrap, self.reports, 0, raw)

    def honest(self) -> Row:
        return Row(body(self.plan, [1]), secrets.token_bytes(16))

    def accepted(self) -> float:
        return self.worker.metric("calmstream_reports_accepted_total")

    def still_counts(self, earlier: int = 0) -> Verdict:
        """Send an honest report and return whether the worker counts it."""
        self.send(batch([self.honest()]))
        if self._wait(lambda: self.accepted() >= earlier + 1):
            return Verdict(True, "the worker continues and counts the next report")
        if not self.worker.alive():
            return Verdict(False, f"the worker ends: {self._last_line()}")
        return Verdict(False, f"the worker counts {self.accepted():.0f} of {earlier + 1} reports")

    def _wait(self, happened: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline and self.worker.alive():
            if happened():
                return True
            time.sleep(0.1)
        return False

    def _last_line(self) -> str:
        lines = [line for line in self.worker.tail().splitlines() if line.strip()]
        return lines[-1][:160] if lines else "without output"


@contextmanager
def stage(**changes: object) -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        broker = NativeKafka(Path(name) / "broker").start()
        started = None
        try:
            started = Stage(broker, Path(name), make_plan(**changes))
            yield started
        finally:
            if started is not None:
                started.worker.kill()
            broker.close()


def header_name() -> Verdict:
    """Send one record with a header name that is not UTF-8."""
    with stage() as on:
        on.send(batch([Row(b"{}", b"k" * 16, [(b"\xff", b"x")])]))
        return on.still_counts()


def codec(number: int) -> Attack:
    """Return an attack: an honest batch in a compression codec that a gateway may choose."""

    def attack() -> Verdict:
        with stage() as on:
            on.send(batch([on.honest()], number))
            return on.still_counts(1)

    return attack


def _bomb(size: int) -> bytes:
    """Compress one record whose value is ``size`` zero bytes, without storing it as a whole."""
    head = b"\x00" + varint(0) + varint(0) + varint(16) + b"k" * 16 + varint(size)
    length = varint(len(head) + size + 1)
    squeeze = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    out = squeeze.compress(length + head)
    chunk = bytes(1 << 20)
    for _ in range(size >> 20):
        out += squeeze.compress(chunk)
    return out + squeeze.compress(varint(0)) + squeeze.flush()


def memory() -> Verdict:
    """Send 1.5 MB of gzip that becomes 1.5 GiB, with half a gigabyte of memory to spare."""
    with stage() as on:
        raw = frame(_bomb(BOMB_BYTES), 1, codec=GZIP)
        pid = on.worker.child.pid
        (used,) = (
            int(line.split()[1]) << 10
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if line.startswith("VmSize")
        )
        limit = used + SPARE_MEMORY
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))
        on.send(raw)
        return on.still_counts()


def dead_letters() -> Verdict:
    """Send 100 kB of gzip that becomes 105 MB of rejected records; letters stay below 10 MiB."""
    with stage() as on:
        rows = [Row(bytes(BAD_BYTES), b"k" * 16)] * BAD_RECORDS
        payload = gzip.compress(encode_rows(rows), 9)
        on.send(frame(payload, BAD_RECORDS, codec=GZIP))
        verdict = on.still_counts()
        time.sleep(2)  # until the broker has written the dead letters
        folder = on.broker.data / f"{names_of(on.plan).dead_letters}-0"
        written = sum(path.stat().st_size for path in folder.glob("*.log"))
        what = f"{len(payload):,} bytes became {written:,} bytes of dead letters; {verdict.what}"
        return Verdict(verdict.held and written < 10 << 20, what)


def tiny_batches() -> Verdict:
    """Send a flood of batches of one report: the worker keeps to the plan's limit of ids."""
    with stage() as on:
        for _ in range(TINY // 1000):
            on.send(batch([on.honest() for _ in range(1000)]))
        deadline = time.monotonic() + 3 * DEADLINE_SECONDS
        while on.worker.metric("calmstream_records_read_total") < TINY:
            if time.monotonic() > deadline or not on.worker.alive():
                return Verdict(False, "the worker does not read the flood")
            time.sleep(0.2)
        kept = on.accepted()
        limit = on.plan.limits.batches
        return Verdict(
            kept <= limit, f"{kept:,.0f} of {TINY:,} ids are kept; the limit is {limit:,}"
        )


ATTACKS: dict[str, Attack] = {
    "A1 a header name that is not UTF-8": header_name,
    "A1 a batch in lz4": codec(LZ4),
    "A1 a batch in zstd": codec(ZSTD),
    "A1 a batch in snappy": codec(SNAPPY),
    "A5 a bomb against memory": memory,
    "A5 a bomb of dead letters": dead_letters,
    "A5 a flood of tiny batches": tiny_batches,
}
