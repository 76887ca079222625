"""What is fuzzed: each target takes any bytes, and raises where the code breaks a promise.

Before a target stands a list of good inputs. JSON inputs begin with one byte that chooses the
reader.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import orjson

from calmstream.broker.record_batches import CorruptBatch, decode_batches
from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError, PlanError, Rejection
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.document import read_plan
from calmstream.estimators.wire.batch import decode_batch, encode_batch
from calmstream.estimators.wire.report import decode_report, encode_report
from calmstream.producer.device.read_plan import read_device_plan, read_signed_plan
from calmstream.producer.device.state_json import from_bytes, sealed, to_bytes
from calmstream.producer.gateway.durable.entries import RowCodec
from calmstream.producer.gateway.durable.frames import FrameFile
from calmstream.producer.gateway.durable.period_log import PeriodLog
from calmstream.producer.signed.refusal import PlanRefused
from tests.brokers.planted import stamped
from tests.support.attacks.typed_mutants import Case, cases, verdict
from tests.support.batch_reading import slow_reading
from tests.support.batches import CODECS, Row, compress, encode_rows
from tests.support.gateway.faulty_files import Content, FaultyFiles
from tests.support.gateway.running import line, running
from tests.support.gateway.spool_world import counting_plan
from tests.support.serving import filled, serving_bench
from tests.support.signed import Operator

ROOT = Path(__file__).parents[2]
OPERATOR = Operator()
WIRE = ROOT / "docs" / "wire-examples.json"
SIGNED = ROOT / "docs" / "signed-examples.json"
CODEC_NUMBERS = sorted(CODECS.values())


@cache
def examples(path: Path) -> Any:
    return json.loads(path.read_bytes())


@cache
def plans(part: str) -> list[Plan]:
    return [read_plan(text.encode()) for text in examples(WIRE)[part]["plans"]]


def batch(raw: bytes) -> None:
    """A record of a reports topic; each batch has exactly one encoding."""
    plan = plans("batches")[raw[0] % len(plans("batches"))]
    try:
        found = decode_batch(plan, 0, bytes(16), raw[1:])
    except Rejection:
        return
    assert encode_batch(plan, 0, found) == raw[1:]


def batch_seeds() -> Iterator[bytes]:
    for case in examples(WIRE)["batches"]["cases"]:
        yield bytes([case["plan"]]) + bytes.fromhex(case["value"])


def report(raw: bytes) -> None:
    """A report as a device sends it."""
    plan = plans("reports")[raw[0] % len(plans("reports"))]
    try:
        group, found = decode_report(plan, raw[1:])
    except Rejection:
        return
    again = decode_report(plan, encode_report(plan, group, found))
    assert encode_report(plan, *again) == encode_report(plan, group, found)


def report_seeds() -> Iterator[bytes]:
    for case in examples(WIRE)["reports"]["cases"]:
        if case["plan"] < 256:
            yield bytes([case["plan"]]) + bytes.fromhex(case["report"])


def log(raw: bytes) -> None:
    """A fetch response: as it is, and as a batch with a right checksum around any content."""
    kind, count, payload = raw[0], raw[1], raw[2:]
    codec = CODEC_NUMBERS[kind % len(CODEC_NUMBERS)]
    whole = payload if kind & 128 else stamped(payload, count, 1000, codec=codec)
    records = []
    try:
        for piece in decode_batches(Partition("t", 0), whole):
            assert piece.chunk is None or piece.chunk.offset[-1] < piece.next_offset
            records.append(piece)
    except CorruptBatch:
        assert kind & 128, "the checksum is right"
        return
    if not kind & 128 and codec == 0 and count:
        slow = slow_reading(payload, count)
        (piece,) = records
        damaged = piece.chunk is not None and piece.chunk.damage is not None
        assert damaged or (slow is not None and piece.chunk is not None)
        if not damaged and slow is not None and piece.chunk is not None:
            got = [(r.offset, r.key, r.value) for r in piece.chunk.records()]
            assert got == [(delta, key, value) for delta, _, key, value, _ in slow]


def log_seeds() -> Iterator[bytes]:
    rows = [Row(b"value", b"k" * 16, [(b"h", b"v")], time_delta=3), Row(b"", None)]
    plain = encode_rows(rows)
    for number, codec in enumerate(CODEC_NUMBERS):
        yield bytes([number, 2]) + compress(codec, plain)
        whole = stamped(compress(codec, plain), 2, 1000, codec=codec)
        yield b"\x80\x02" + whole + whole


@cache
def readers() -> list[tuple[str, Case]]:
    return list(cases().items())


def topics(raw: bytes) -> None:
    """A record of any other topic: it is read, foreign, or of a newer version; always the same."""
    name, case = readers()[raw[0] % len(readers())]
    if name == "dead letter" and not _are_headers(raw[1:]):
        return
    found = verdict(case, raw[1:])
    assert found in {"read", "foreign", "newer"}, found
    assert verdict(case, raw[1:]) == found


def _are_headers(raw: bytes) -> bool:
    """Return whether JSON states headers, of which Kafka takes any texts."""
    try:
        return isinstance(orjson.loads(raw), dict)
    except ValueError:
        return False


def topics_seeds() -> Iterator[bytes]:
    for number, (_, case) in enumerate(readers()):
        yield bytes([number]) + case.encode(case.body)


def plan(raw: bytes) -> None:
    """A plan of the service, of a device, and signed by a root that is trusted."""
    kind, text = raw[0] % 3, raw[1:]
    try:
        if kind == 2:
            found = read_signed_plan(OPERATOR.sign(text), [OPERATOR.root]).plan
        else:
            found = (read_plan, read_device_plan)[kind](text)
    except (PlanError, PlanRefused):
        return
    assert read_plan(found.to_bytes()) == found
    assert all(mechanism.cells > 0 for mechanism in found.mechanisms) or kind == 0


def plan_seeds() -> Iterator[bytes]:
    for part in ("batches", "reports"):
        for each in plans(part)[:60]:
            yield b"\x00" + each.to_bytes()
            yield b"\x01" + each.to_bytes()
    yield b"\x02" + OPERATOR.plan().to_bytes()
    for path in sorted((ROOT / "deploy" / "plans").glob("*.plan.json")):
        if path.stat().st_size < 20_000:
            yield b"\x01" + path.read_bytes()


def envelope(raw: bytes) -> None:
    """A signed plan, whoever signed it."""
    with contextlib.suppress(PlanRefused):
        read_signed_plan(raw, None)


def envelope_seeds() -> Iterator[bytes]:
    for case in examples(SIGNED)["envelopes"]:
        text = next(value for name, value in case.items() if name in {"envelope", "bytes", "raw"})
        yield base64.b64decode(text) if isinstance(text, str) else orjson.dumps(text)


def store(raw: bytes) -> None:
    """A device's store with a right checksum around any content."""
    try:
        document = orjson.loads(raw[1:])
        packed = sealed({n: v for n, v in document.items() if n != "sha256"})
    except (ValueError, TypeError, AttributeError):
        return
    try:
        state = from_bytes(packed)
    except ValueError:
        return
    assert from_bytes(to_bytes(state)) == state


def store_seeds() -> Iterator[bytes]:
    from calmstream import MemoryStore
    from calmstream.producer.device.ledger import DeviceState
    from tests.support.producer import LARGE, START, unsigned_reporter

    kept = MemoryStore(DeviceState(bytes(16), policy=LARGE))
    yield b"\x00" + to_bytes(kept.read())
    one = OPERATOR.plan()
    begin = one.start * 1000
    reporter = unsigned_reporter(one, kept, clock=lambda: max(begin, START * 1000))
    reporter.report({"colour": "red"}, keep=True)
    yield b"\x00" + to_bytes(kept.read())


SPOOLED = counting_plan()


def spool(raw: bytes) -> None:
    """A file of the gateway's disk: as it is, or frames with right checksums around any content."""
    files, path = FaultyFiles(Random(1)), Path("/spool/a/0.spool")
    content = files.contents.setdefault(path, Content())
    if raw[0] & 1:
        content.current = raw[1:]
    else:
        file = FrameFile(files, path)
        for payload in raw[1:].split(b"\xff\xfe"):
            file.append(payload)
        file.close()
    found = PeriodLog(RowCodec(SPOOLED), 0, FrameFile(files, path))
    try:
        waiting = list(found.recover())
    except FatalError:
        return
    assert len(waiting) <= len(found.ids)


def spool_seeds() -> Iterator[bytes]:
    from calmstream.producer.gateway.durable import entries
    from calmstream.producer.gateway.encoding import EncodedBatch

    one = entries.SpoolEntry(b"i" * 16, 1, 0, 0, (0, (5,)))
    head = entries.header(SPOOLED.digest, 0)
    reports = entries.reports(RowCodec(SPOOLED), [one])
    batches = entries.sealed([0], [EncodedBatch(SPOOLED, 0, 0, 1, b"b" * 16, b"value")])
    settled = entries.settled(b"b" * 16, acknowledged=True)
    yield b"\x00" + head + reports + b"\xff\xfe" + reports
    yield b"\x00" + head + reports + b"\xff\xfe" + batches + b"\xff\xfe" + settled


@cache
def servers() -> tuple[Any, Any]:
    """Start a gateway and a server of results, which run until `stop_servers`."""
    stack = contextlib.ExitStack()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    gateway = stack.enter_context(running(folder, body_bytes=20_000))
    served = stack.enter_context(serving_bench(filled(windows=1)))
    STACKS.append(stack)
    return gateway, served


def stop_servers() -> None:
    """End the servers, if they were started."""
    while STACKS:
        STACKS.pop().close()


STACKS: list[contextlib.ExitStack] = []
_STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d) ")


END = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def _part(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except TimeoutError:
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(30)
        return connection.recv(1 << 16)


def http(raw: bytes) -> None:
    """Any bytes on a connection: every answer is HTTP, and none says that the server failed."""
    gateway, served = servers()
    sent = raw[1:].replace(b"DIGEST", gateway.plan.digest.encode())
    sent = sent.replace(b"NAME", served.service.plan.name.encode())
    port = (gateway.gateway.port, served.server.port)[raw[0] % 2]
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        answer = b""
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(sent + END)
            connection.settimeout(0.03)  # a server that waits for more gets the end instead
            while part := _part(connection):
                answer += part
    assert not answer or answer.startswith(b"HTTP/1.1 "), answer
    assert not {b"500"} & set(_STATUS.findall(answer)), answer


def http_seeds() -> Iterator[bytes]:
    gateway, served = servers()
    for path in ("/v1/plans", "/v1/plans/DIGEST", "/v1/plans/x"):
        yield f"\x00GET {path} HTTP/1.1\r\nhost: localhost\r\nif-none-match: *\r\n\r\n".encode()
    body = line(gateway.plan, 1).replace(gateway.plan.digest.encode(), b"DIGEST")
    for media in ("application/json", "application/x-ndjson"):
        head = f"\x00POST /v1/plans/DIGEST/reports HTTP/1.1\r\nhost: x\r\ncontent-type: {media}\r\n"
        yield f"{head}content-length: {len(body) + 58}\r\n\r\n".encode() + body
        size = f"{len(body) + 58:x}"
        yield (
            f"{head}transfer-encoding: chunked\r\n\r\n{size}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        )
    names = [attribute.name for attribute in served.service.plan.domain.attributes]
    for path in (
        "", "/windows?limit=3", f"/tables?attributes={names[0]}&windows=0&format=csv",
        f"/tables?attributes={names[0]},{names[1]}&given={names[0]}=x&minus=total",
        f"/series?attributes={names[0]}&windows=0..0&group=day", "/words?text=a&candidates=x,y",
        f"/summaries?attributes={names[0]}&statistics=mean,median", "/associations?windows=last:1",
        "/changes?window=0&against=previous",
    ):  # fmt: skip
        yield f"\x01GET /v1/plans/NAME{path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "batch": (batch, batch_seeds),
    "report": (report, report_seeds),
    "log": (log, log_seeds),
    "topics": (topics, topics_seeds),
    "plan": (plan, plan_seeds),
    "envelope": (envelope, envelope_seeds),
    "store": (store, store_seeds),
    "spool": (spool, spool_seeds),
    "http": (http, http_seeds),
}
