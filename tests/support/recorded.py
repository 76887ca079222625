"""What a release wrote: bytes of every format, and what it read in them.

    python -m tests.support.recorded        # writes tests/recorded/VERSION.json.gz, once a release

A recorded file is never made again: a later version must read it with the same meaning. Reports,
batches, plans and envelopes are those of ``docs/*-examples.json``.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from calmstream import FileStore, Reporter, set_policy
from calmstream.broker.transport import Partition
from calmstream.common.version import version
from calmstream.estimators.central.release_reading import ReleaseFold
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.document import read_plan
from calmstream.estimators.wire.batch import decode_batch
from calmstream.estimators.wire.counts import decode_counts
from calmstream.estimators.wire.dead_letter import DeadLetter
from calmstream.estimators.wire.report import decode_report
from calmstream.estimators.wire.state import decode_closed, decode_state, parse_key
from calmstream.producer.device.policy import Policy
from calmstream.producer.device.read_plan import read_signed_plan
from calmstream.producer.gateway.durable import entries
from calmstream.producer.gateway.durable.frames import FrameFile
from calmstream.producer.gateway.durable.period_log import PeriodLog
from calmstream.producer.gateway.encoding import EncodedBatch
from tests.support.attacks.typed_mutants import PLAN, cases
from tests.support.central import PLAN as CENTRAL
from tests.support.gateway.faulty_files import Content, FaultyFiles
from tests.support.gateway.spool_world import counting_plan
from tests.support.publisher import shown
from tests.support.serving import filled
from tests.support.signed import Operator
from tests.support.typescript.package import built, run

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "recorded"
Json = dict[str, Any]


def said(value: Any) -> Any:
    """Return a value as JSON: what was read, without the types that may change."""
    if is_dataclass(value) and not isinstance(value, type | Plan | Mechanism):
        return {f.name: said(getattr(value, f.name)) for f in fields(value) if f.name[0] != "_"}
    if isinstance(value, Mapping):
        return {str(said(name)): said(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [said(each) for each in value]
    for kind, shown_as in SHOWN.items():
        if isinstance(value, kind):
            return said(shown_as(value))
    return value if isinstance(value, str | int | float | None) else str(value)


SHOWN: dict[type, Callable[[Any], Any]] = {
    Plan: lambda plan: plan.digest,
    Mechanism: Mechanism.to_json,
    Enum: lambda one: one.value,
    bytes: bytes.hex,
    np.ndarray: np.ndarray.tolist,
    np.generic: np.generic.item,
}


def agrees(found: Any, recorded: Any) -> bool:
    """Return whether everything that was recorded is still said; more may be said."""
    if isinstance(found, dict) and isinstance(recorded, dict):
        return all(name in found and agrees(found[name], recorded[name]) for name in recorded)
    if isinstance(found, list) and isinstance(recorded, list):
        same = len(found) == len(recorded)
        return same and all(agrees(a, b) for a, b in zip(found, recorded, strict=True))
    return bool(found == recorded)


def _snapshots(given: Json, plan: Plan) -> Any:
    records = [(_raw(key), _raw(value)) for key, value in given["records"]]
    return [[s.manifest, list(s.marginals.values())] for s in shown(plan, records)]


def _state(given: Json, plan: Plan) -> Any:
    group, _, window = parse_key(_raw(given["key"]))
    return (decode_state if window is None else decode_closed)(plan, group, _raw(given["value"]))


def _central(given: Json, _plan: Plan | None) -> Any:
    fold = ReleaseFold(CENTRAL.digest)
    found = [fold.read(_raw(value)) for value in given["values"]]
    return [release for release in found if release is not None]


def _store(given: Json, _plan: Plan | None) -> Any:
    with tempfile.TemporaryDirectory() as name:
        for suffix, content in given["files"].items():
            Path(name, f"device{suffix}").write_bytes(_raw(content))
        store = FileStore(Path(name, "device"), create=False)
        return [store.read(), store.read_events()]


def _spool(given: Json, plan: Plan) -> Any:
    files, path = FaultyFiles(random.Random(1)), Path("/spool/0")
    files.contents[path] = Content(_raw(given["value"]))
    log = PeriodLog(entries.RowCodec(plan), 0, FrameFile(files, path))
    waiting = list(log.recover())
    return [waiting, list(log.unsettled.values()), [log.body(b) for b in log.unsettled.values()]]


def _plan(plan: Plan) -> Any:
    numbers = (plan.start, plan.window, plan.windows, plan.epsilon, plan.guarantee)
    return [plan, plan.name, plan.lineage, numbers, plan.domain.attributes, plan.groups]


NODE = """
import { existsSync, readFileSync } from "node:fs";
import { Reporter, history, setPolicy } from "calmstream-edge";
import { FileStore } from "calmstream-edge/node";
const [path, envelope, root, start] = process.argv.slice(1);
const store = new FileStore(path);
if (envelope) {
  await setPolicy(store, { roots: [root] });
  const reporter = await Reporter.open(readFileSync(envelope), store, { clock: () => +start });
  await reporter.report({ colour: "red", size: "m" }, { keep: true });
}
console.log(JSON.stringify(await history(store)));
"""
"""Prints the history of a store, after a report where an envelope is given."""


def _node(*words: str) -> Any:
    built()
    return json.loads(run("--input-type=module", "--eval", NODE, *words))


def _node_store(given: Json, _plan: Plan | None) -> Any:
    with tempfile.TemporaryDirectory() as name:
        for suffix, content in given["files"].items():
            Path(name, f"device{suffix}").write_bytes(_raw(content))
        return _node(str(Path(name, "device")))


READERS: dict[str, Callable[[Json, Any], Any]] = {
    "plan": lambda given, _: _plan(read_plan(_raw(given["value"]))),
    "envelope": lambda given, _: read_signed_plan(_raw(given["value"]), given["roots"]),
    "report": lambda given, plan: decode_report(plan, _raw(given["value"])),
    "batch": lambda given, plan: decode_batch(plan, 0, _raw(given["key"]), _raw(given["value"])),
    "state": _state,
    "counts": lambda given, plan: decode_counts(plan, _raw(given["value"])),
    "snapshots": _snapshots,
    "dead letter": lambda given, plan: DeadLetter.from_headers(
        tuple((name, text.encode()) for name, text in given["headers"].items()), plan
    ),
    "central": _central,
    "store": _store,
    "spool": _spool,
    "node store": _node_store,
}


def meaning(given: Json) -> Any:
    plan = read_plan(given["plan"].encode()) if "plan" in given else None
    return json.loads(json.dumps(said(READERS[given["format"]](given, plan))))


def _raw(text: str) -> bytes:
    return base64.b64decode(text)


def _text(raw: bytes | None) -> str:
    return base64.b64encode(raw or b"").decode()


def written() -> Iterator[Json]:
    """Yield an entry for every format, as this version writes it."""
    wire = json.loads((ROOT / "docs" / "wire-examples.json").read_bytes())
    signed = json.loads((ROOT / "docs" / "signed-examples.json").read_bytes())
    for text in wire["reports"]["plans"] + wire["batches"]["plans"]:
        yield {"format": "plan", "value": _text(text.encode())}
    for case in wire["reports"]["cases"]:
        raw = bytes.fromhex(case["report"])
        plan = wire["reports"]["plans"][case["plan"]]
        yield {"format": "report", "plan": plan, "value": _text(raw)}
    for case in wire["batches"]["cases"]:
        key, value = bytes.fromhex(case["key"]), bytes.fromhex(case["value"])
        plan = wire["batches"]["plans"][case["plan"]]
        yield {"format": "batch", "plan": plan, "key": _text(key), "value": _text(value)}
    for case in signed["envelopes"]:
        if case["refused"] is None:
            roots = case["policy"]["roots"]
            yield {"format": "envelope", "value": case["envelope"], "roots": roots}
    yield from _run()
    yield from _single_records()
    yield from _stores()
    yield _spooled()


def _run() -> Iterator[Json]:
    """The topics of a small run, of tables of windows and of what values are now."""
    bench = filled(windows=2)
    text = bench.plan.to_bytes().decode()
    found = bench.snapshot_records()
    records = [[_text(key), _text(value)] for key, value in found if value is not None]
    yield {"format": "snapshots", "plan": text, "records": records}
    topics = (
        (bench.names.state, "state", bench.plan.partitions),
        (bench.names.counts, "counts", 1),
    )
    for topic, kind, partitions in topics:
        for number in range(partitions):
            for record in bench.broker.records(Partition(topic, number)):
                if record.value is not None:
                    given = {"key": _text(record.key), "value": _text(record.value)}
                    yield {"format": kind, "plan": text, **given}


def _single_records() -> Iterator[Json]:
    listed, plan = cases(), PLAN.to_bytes().decode()
    yield {"format": "dead letter", "plan": plan, "headers": listed["dead letter"].body}
    values = [_text(listed[n].encode(listed[n].body)) for n in ("claim", "level", "release")]
    yield {"format": "central", "values": values}


def _stores() -> Iterator[Json]:
    operator = Operator()
    plan = operator.plan()
    with tempfile.TemporaryDirectory() as name:
        store = FileStore(Path(name, "device"))
        set_policy(store, Policy(roots=(operator.root,)))
        reporter = Reporter(operator.sign(plan), store, clock=lambda: plan.start * 1000)
        assert reporter.report({"colour": "red", "size": "m"}, keep=True) is not None
        store.update_events(lambda _: {"kept": [1, 2.5, "x"]})
        yield {"format": "store", "files": _files(name)}
    with tempfile.TemporaryDirectory() as name, tempfile.NamedTemporaryFile() as envelope:
        Path(envelope.name).write_bytes(operator.sign(plan))
        _node(str(Path(name, "device")), envelope.name, operator.root, str(plan.start * 1000))
        yield {"format": "node store", "files": _files(name)}


def _files(folder: str) -> dict[str, str]:
    return {p.name.removeprefix("device"): _text(p.read_bytes()) for p in Path(folder).iterdir()}


def _spooled() -> Json:
    plan, files, path = counting_plan(), FaultyFiles(random.Random(1)), Path("/spool/0")
    log = PeriodLog(entries.RowCodec(plan), 0, FrameFile(files, path))
    log.add([entries.SpoolEntry(bytes([n]) * 16, n, 0, 0, (0, (n,))) for n in range(4)])
    sealed = [EncodedBatch(plan, 0, 0, 1, bytes([n]) * 16, b"value%d" % n) for n in (1, 2)]
    log.seal([0, 2], sealed)
    log.settle(sealed[0].batch_id, acknowledged=True)
    log.write_outcomes()
    value = _text(files.contents[path].current)
    return {"format": "spool", "plan": plan.to_bytes().decode(), "value": value}


def main() -> None:
    path = FOLDER / f"{version()}.json.gz"
    if path.exists():
        raise SystemExit(f"{path} is recorded already")
    found = [{**given, "says": meaning(given)} for given in written()]
    path.write_bytes(gzip.compress(orjson.dumps(found), 9, mtime=0))


if __name__ == "__main__":
    main()
