"""Read a million malformed record batches from a real broker with the product's Kafka client.

    python -m benchmarks.service.fuzz_batches [--batches N] [--seed S]

The batches have correct checksums and wrong content: bytes of plain or compressed records are
changed, removed or added, for every codec; headers, numbers of records, offsets and times are
inconsistent; some batches are transaction markers or have no records. They are written into the log
files of a real broker, which serves them unchanged. Two processes read the log. Both must reach its
end with the same verdict on each record: decoded, or the reason why it cannot be decoded. The
program prints the number of each verdict, the peak memory and the time.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np

from calmstream.broker.kafka import connect
from calmstream.broker.transport import Partition, TopicSpec
from tests.brokers.native import NativeKafka
from tests.brokers.planted import now_ms, plant, stamped
from tests.support.batches import (
    CODECS,
    CONTROL,
    GZIP,
    SNAPPY,
    TRANSACTIONAL,
    Row,
    compress,
    encode_rows,
    java_snappy,
)

TOPIC = "fuzz"
PARTITIONS = 4
POOL = 2000  # well-formed batches from which all malformed ones are made

BOMBS = 40  # batches, over all partitions, of which a few kilobytes decompress to 64 MiB

STALL_SECONDS = 60.0  # longest time without a record before the reading counts as stuck

NUMBER = re.compile(r"(?<![a-z])-?\d+")
"""A number in the text of a verdict; verdicts that differ only by it count as one."""


def pool(random: np.random.Generator) -> list[tuple[bytes, int, int]]:
    """Return (payload, number of records, codec) of well-formed batches."""
    payloads = []
    for number in range(POOL):
        count = int(random.integers(1, 6))
        rows = [
            Row(
                random.bytes(int(random.integers(0, 60))),
                random.bytes(16) if random.random() < 0.9 else None,
                [(random.bytes(3), random.bytes(4))] if random.random() < 0.3 else (),
                time_delta=int(random.integers(-10, 1 << 20)),
            )
            for _ in range(count)
        ]
        plain = encode_rows(rows)
        codec = list(CODECS.values())[number % len(CODECS)]
        java = codec == SNAPPY and random.random() < 0.5
        payloads.append((java_snappy(plain) if java else compress(codec, plain), count, codec))
    return payloads


def damaged(payload: bytes, random: np.random.Generator) -> bytes:
    """Change, remove or add up to four bytes."""
    out = bytearray(payload)
    for place in random.integers(0, max(len(out), 1), int(random.integers(0, 5))).tolist():
        kind = int(random.integers(0, 8))
        if kind < 5 and place < len(out):
            out[place] = int(random.integers(0, 256))
        elif kind < 7:
            out[place : place + int(random.integers(0, 4))] = b""
        else:
            out[place:place] = random.bytes(int(random.integers(1, 4)))
    return bytes(out)


def batches(count: int, seed: int) -> Iterator[bytes]:
    """Yield batches, some of which decompress to 64 MiB; 16 % have more wrong than their bytes."""
    random = np.random.default_rng(seed)
    wellformed = pool(random)
    bomb = gzip.compress(bytes(64 << 20), 9)
    now = now_ms()
    bombs = set(random.integers(0, count, BOMBS // PARTITIONS).tolist())
    for number in range(count):
        if number in bombs:
            yield stamped(bomb, 1, now, codec=GZIP)
            continue
        payload, records, codec = wellformed[int(random.integers(0, POOL))]
        draw = random.random()
        attributes = 0
        stated, last = records, records - 1
        if draw < 0.02:
            attributes = CONTROL | TRANSACTIONAL
        elif draw < 0.04:
            payload, stated, codec = b"", 0, 0
        elif draw < 0.08:
            stated = int(random.integers(-5, 100))
        elif draw < 0.12:
            last = int(random.integers(0, 10))
        elif draw < 0.16:
            codec = int(random.integers(0, 8))
        if draw > 0.1:
            payload = damaged(payload, random)
        yield stamped(payload, stated, now, codec=codec, attributes=attributes, last_delta=last)


def read(bootstrap: str) -> dict[str, object]:
    """Read all partitions to their ends; return verdicts, their digest, seconds, peak memory."""
    broker = connect(bootstrap)
    topics, reader = broker.topics(), broker.reader()
    partitions = [Partition(TOPIC, n) for n in range(PARTITIONS)]
    ends = topics.log_ends(partitions)
    reader.assign(partitions)
    for partition in partitions:
        reader.seek(partition, 0)
    verdicts: Counter[str] = Counter()
    digests = {p: hashlib.sha256() for p in partitions}
    began = moved = time.monotonic()
    while any(reader.position(p) < ends[p] for p in partitions):
        records = reader.poll(0.5)
        for r in records:
            what = "decoded" if r.damage is None else r.damage.why
            verdicts[NUMBER.sub("#", what)] += 1
            line = (r.offset, r.timestamp, r.key, r.value, r.headers, r.damage)
            digests[r.partition].update(repr(line).encode())
        if records:
            moved = time.monotonic()
        assert time.monotonic() - moved < STALL_SECONDS, "the reading stands still"
    seconds = time.monotonic() - began
    broker.close()
    whole = hashlib.sha256(b"".join(d.digest() for d in digests.values())).hexdigest()
    return {
        "verdicts": dict(verdicts.most_common()),
        "digest": whole,
        "seconds": round(seconds, 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--read", metavar="BOOTSTRAP", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read:
        print(json.dumps(read(args.read)))
        return 0
    with NativeKafka() as kafka:
        broker = connect(kafka.bootstrap)
        settings = {"message.timestamp.type": "LogAppendTime"}
        broker.topics().create([TopicSpec(TOPIC, PARTITIONS, settings)])
        broker.close()
        each = args.batches // PARTITIONS
        logs = {Partition(TOPIC, n): batches(each, args.seed + n) for n in range(PARTITIONS)}
        plant(kafka, logs)
        runs = []
        for _ in range(2):
            command = [
                sys.executable,
                "-m",
                "benchmarks.service.fuzz_batches",
                "--read",
                kafka.bootstrap,
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            runs.append(json.loads(done.stdout))
    for run in runs:
        print(f"{args.batches:,} batches read in {run['seconds']} s, peak {run['peak_mib']} MiB")
    for what, number in runs[0]["verdicts"].items():
        print(f"  {number:9,}  {what}")
    same = runs[0]["digest"] == runs[1]["digest"]
    print("the same verdicts on both runs" if same else "DIFFERENT VERDICTS")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
