"""Check the history of reports that a person can see on a device, and how to stop reporting."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import orjson

from calmstream import (
    FileStore,
    MemoryStore,
    Policy,
    Reporter,
    Status,
    history,
    rejoin,
    withdraw,
)
from calmstream.producer.device.history import (
    MAX_HISTORY_BYTES,
    MAX_SENT,
    Sent,
    appended,
    value_fields,
)
from calmstream.producer.device.ledger import DeviceState
from calmstream.producer.device.state_json import from_bytes, to_bytes
from tests.support.producer import START, make_plan, unsigned_reporter
from tests.support.signed import Operator

GOOD = Operator()
POLICY = Policy(roots=(GOOD.root,), ever_epsilon="9")


def test_a_history_lists_what_left(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "device.json")
    plan = GOOD.plan(purpose="crash rates", epsilon="1.5")
    device = Reporter(GOOD.sign(plan), store, clock=lambda: (START + 3) * 1000, policy=POLICY)
    report = device.report({"colour": "red", "size": "xl", "flag": "1"})
    assert report is not None
    [sent] = FileStore(tmp_path / "device.json").read().history
    raw = report.encode(plan)
    view = plan.groups[report.group].views[report.view]
    assert sent == Sent(
        plan="edge-test", digest=plan.digest, purpose="crash rates", owner="Example Ltd",
        root=GOOD.root, attributes=tuple(plan.domain.names[j] for j in view.attributes),
        value=raw.decode(), value_bytes=len(raw), value_sha256=hashlib.sha256(raw).hexdigest(),
        epsilon="1.5", when=START + 3, remains="6.5", remains_ever="7.5",
    )  # fmt: skip
    assert history(store) == (sent,)
    assert (device.owner, device.asked()) == (sent.owner, sent.attributes)
    assert (device.remaining().span, device.remaining().ever) == (6.5, 7.5)


def entry(number: int, size: int = 10) -> Sent:
    return Sent(
        "p", "d", "why", "who", "", ("a",), "x" * size, size, "s", "1", number, "7", None
    )  # fmt: skip


def test_a_history_is_bounded_and_forgets_the_oldest() -> None:
    kept: tuple[Sent, ...] = ()
    for number in range(MAX_SENT + 30):
        kept = appended(kept, entry(number))
    assert [sent.when for sent in kept] == list(range(30, MAX_SENT + 30))
    for number in range(MAX_SENT):
        kept = appended(kept, entry(1000 + number, 4096))
    assert kept[-1].when == 1000 + MAX_SENT - 1
    size = sum(len(orjson.dumps(sent)) for sent in kept)
    assert MAX_HISTORY_BYTES - 2 * 4500 < size <= MAX_HISTORY_BYTES
    assert appended((), entry(1, MAX_HISTORY_BYTES)) == (entry(1, MAX_HISTORY_BYTES),)


def test_texts_of_a_plan_are_shortened() -> None:
    store = MemoryStore()
    plan = make_plan(purpose="p" * 100_000, owner="o" * 100_000)
    assert unsigned_reporter(plan, store, clock=lambda: START * 1000).report({}) is not None
    [sent] = store.read().history
    assert len(sent.purpose) == len(sent.owner) == 500
    large = value_fields(b"x" * 5000)
    assert (large["value"], large["value_bytes"]) == ("", 5000)


def test_a_state_with_everything_round_trips() -> None:
    store = MemoryStore(DeviceState(bytes(16), policy=POLICY))
    device = Reporter(GOOD.sign(GOOD.plan()), store, clock=lambda: START * 1000)
    assert device.report({}, keep=True) is not None
    state = replace(store.read(), generation=7, withdrawn=True)
    assert len(state.waiting) == 1
    assert from_bytes(to_bytes(state)) == state


def test_whoever_withdraws_sends_nothing_until_they_rejoin(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    signed = [GOOD.sign(GOOD.plan(name)) for name in "abc"]

    def device(raw: bytes) -> Reporter:
        return Reporter(raw, FileStore(path), clock=lambda: START * 1000, policy=POLICY)

    assert device(signed[0]).report({}) is not None
    before = FileStore(path).read()
    withdraw(FileStore(path))
    for raw in signed:
        assert device(raw).status() is Status.WITHDRAWN
        assert device(raw).report({}) is None
    after = FileStore(path).read()
    assert (after.signed, after.totals, after.history) == (
        before.signed, before.totals, before.history,
    )  # fmt: skip
    rejoin(FileStore(path))
    assert device(signed[0]).status() is Status.ALREADY_REPORTED
    assert device(signed[1]).report({}) is not None
    withdraw(FileStore(path))
    assert device(signed[2]).report({}) is None
    rejoin(FileStore(path))
    assert device(signed[2]).report({}) is not None
