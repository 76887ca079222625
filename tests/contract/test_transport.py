"""Check what every transport must do: sending, reading, topics.

The same tests run on the in-process broker and on real Kafka.
"""

from __future__ import annotations

import gc
import random
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from calmstream.broker.transport import Partition, Reader, Record, Sink, TopicSpec
from calmstream.common.errors import FatalError, MissingTopic, RecoverableError
from tests.contract.conftest import DEADLINE, Bench, until


def test_records_come_back_as_sent_and_in_order(bench: Bench, sink: Sink) -> None:
    topic = bench.topic()
    headers = (("reason", b"late"), ("reason", b""), ("at", b"\x00\xff"))
    sent = [
        sink.send(topic, b"a", b"1", headers=headers),
        sink.send(topic, None, b"2"),
        sink.send(topic, b"", b""),
    ]
    assert [delivery.wait(DEADLINE) for delivery in sent] == [0, 1, 2]
    assert all(delivery.done() for delivery in sent)
    records = bench.read(Partition(topic, 0))
    assert [(r.offset, r.key, r.value, r.headers) for r in records] == [
        (0, b"a", b"1", headers),
        (1, None, b"2", ()),
        (2, b"", b"", ()),
    ]
    assert {r.partition for r in records} == {Partition(topic, 0)}


def test_a_record_goes_to_its_partition_whatever_its_key(bench: Bench, sink: Sink) -> None:
    topic = bench.topic(partitions=3)
    for partition in range(3):
        for _ in range(2):
            sink.send(topic, b"key", b"%d" % partition, partition=partition).wait(DEADLINE)
    got = [[r.value for r in bench.read(Partition(topic, p))] for p in range(3)]
    assert got == [[b"%d" % p] * 2 for p in range(3)]


@pytest.mark.parametrize("kind", ["LogAppendTime", "CreateTime"])
def test_whose_time_it_is_is_said(bench: Bench, kind: str) -> None:
    topic = bench.topic(message_timestamp_type=kind)
    before = time.time_ns() // 1_000_000
    bench.fill(topic, [b"v"])
    after = time.time_ns() // 1_000_000
    (record,) = bench.read(Partition(topic, 0))
    assert record.append_time == (kind == "LogAppendTime")
    assert before - 1000 <= record.timestamp <= after + 1000


def test_a_compacted_topic_takes_tombstones_and_wants_keys(bench: Bench, sink: Sink) -> None:
    topic = bench.topic(cleanup_policy="compact")
    sink.send(topic, b"k", b"v").wait(DEADLINE)
    sink.send(topic, b"k", None).wait(DEADLINE)
    assert [(r.key, r.value) for r in bench.read(Partition(topic, 0))] == [
        (b"k", b"v"),
        (b"k", None),
    ]
    with pytest.raises(FatalError, match=r"key"):
        sink.send(topic, None, b"v").wait(DEADLINE)


def test_a_refused_record_does_not_harm_those_around_it(bench: Bench, sink: Sink) -> None:
    topic = bench.topic(partitions=4, max_message_bytes="10000")
    sent = []
    for n in range(200):
        refused = n % 40 == 20
        value = b"x" * (20_000 if refused else 100)
        sent.append((refused, sink.send(topic, b"%d" % n, value, partition=n % 4)))
    for refused, delivery in sent:
        if refused:
            with pytest.raises(FatalError, match=r"too large"):
                delivery.wait(DEADLINE)
        else:
            delivery.wait(DEADLINE)
    ends = bench.broker.topics().log_ends([Partition(topic, p) for p in range(4)])
    assert sum(ends.values()) == 195


def test_a_record_of_eight_mebibytes_passes_where_the_topic_allows_it(
    bench: Bench, sink: Sink
) -> None:
    topic = bench.topic(max_message_bytes=str(9 << 20))
    value = random.Random(8).randbytes(8 << 20)
    sink.send(topic, b"k", value).wait(DEADLINE)
    (record,) = bench.read(Partition(topic, 0))
    assert record.value == value


def _begin(reader: Reader, partition: Partition) -> None:
    """Assign and poll: a client refuses a missing partition at once, a share when it polls."""
    reader.assign([partition])
    reader.seek(partition, 0)
    reader.poll(0.0)


def test_a_missing_topic_is_named_at_once(bench: Bench, sink: Sink, reader: Reader) -> None:
    name = bench.name("missing")
    started = time.monotonic()
    with pytest.raises(MissingTopic, match=name):
        sink.send(name, b"k", b"v").wait(DEADLINE)
    with pytest.raises(MissingTopic, match=name):
        _begin(reader, Partition(name, 0))
    with pytest.raises(MissingTopic, match=name):
        bench.broker.group_reader(bench.name("g")).subscribe([name])
    with pytest.raises(MissingTopic):
        bench.broker.topics().log_ends([Partition(name, 0)])
    assert time.monotonic() - started < DEADLINE


def test_a_sink_can_be_prepared_for_topics_that_exist(bench: Bench, sink: Sink) -> None:
    topic, missing = bench.topic(partitions=2), bench.name()
    sink.prepare([topic, topic])
    assert sink.send(topic, b"k", b"v", partition=1).wait(DEADLINE) == 0
    with pytest.raises(MissingTopic, match=rf"{missing} does not exist"):
        sink.prepare([topic, missing])
    sink.prepare([])


def test_a_missing_partition_is_refused(bench: Bench, sink: Sink, reader: Reader) -> None:
    topic = bench.topic(partitions=2)
    with pytest.raises(FatalError):
        sink.send(topic, b"k", b"v", partition=2).wait(DEADLINE)
    with pytest.raises(MissingTopic, match=r"\[2\]"):
        _begin(reader, Partition(topic, 2))
    with pytest.raises(FatalError):
        bench.broker.topics().log_starts([Partition(topic, 2)])


def test_seek_moves_and_assign_keeps_the_positions_of_what_stays(
    bench: Bench, reader: Reader
) -> None:
    topic = bench.topic(partitions=2)
    first, second = Partition(topic, 0), Partition(topic, 1)
    bench.fill(topic, [b"0", b"1", b"2"], partition=0)
    bench.fill(topic, [b"3", b"4"], partition=1)
    reader.assign([first])
    reader.seek(first, 1)
    assert reader.position(first) == 1
    got = []
    until(lambda: got.extend(r.value for r in reader.poll(0.2)) or len(got) >= 2)
    assert got == [b"1", b"2"]
    reader.assign([first, second])
    reader.seek(second, 1)
    assert (reader.position(first), reader.position(second)) == (3, 1)
    until(lambda: got.extend(r.value for r in reader.poll(0.2)) or len(got) >= 3)
    assert got == [b"1", b"2", b"4"]
    reader.seek(first, 2)
    until(lambda: got.extend(r.value for r in reader.poll(0.2)) or len(got) >= 4)
    assert got == [b"1", b"2", b"4", b"2"]


def test_reading_without_an_assignment_or_a_position_is_refused(
    bench: Bench, reader: Reader
) -> None:
    where = Partition(bench.topic(), 0)
    with pytest.raises(FatalError, match=r"not assigned"):
        reader.seek(where, 0)
    reader.assign([where])
    with pytest.raises(FatalError, match=r"position"):
        reader.poll(1.0)
    with pytest.raises(FatalError):
        reader.position(where)


def test_an_empty_poll_returns_after_its_timeout(bench: Bench, reader: Reader) -> None:
    where = Partition(bench.topic(), 0)
    reader.assign([where])
    reader.seek(where, 0)
    reader.poll(0.1)
    started = time.monotonic()
    assert reader.poll(0.3) == []
    assert 0.2 < time.monotonic() - started < DEADLINE
    assert reader.position(where) == 0


def test_log_starts_and_ends(bench: Bench) -> None:
    topic = bench.topic(partitions=2)
    bench.fill(topic, [b"0", b"1"], partition=1)
    topics = bench.broker.topics()
    both = [Partition(topic, 0), Partition(topic, 1)]
    assert topics.log_starts(both) == {both[0]: 0, both[1]: 0}
    assert topics.log_ends(both) == {both[0]: 0, both[1]: 2}
    assert topics.log_ends([]) == {}


def test_the_first_record_after_a_time_is_found(bench: Bench) -> None:
    topic = bench.topic(partitions=2)
    where, empty = Partition(topic, 0), Partition(topic, 1)
    topics = bench.broker.topics()
    bench.fill(topic, [b"0"])
    time_ms = bench.read(where)[0].timestamp
    assert topics.first_after({where: time_ms - 1, empty: 0}) == {where: 0}
    assert topics.first_after({where: time_ms}) == topics.first_after({}) == {}

    def younger() -> dict[Partition, int]:
        bench.fill(topic, [b"1"])
        return topics.first_after({where: time_ms})

    until(younger)
    times = [record.timestamp for record in bench.read(where)]
    found = topics.first_after({where: time_ms})[where]
    assert times[found - 1] == time_ms < times[found]


def test_many_threads_share_an_administrator(bench: Bench) -> None:
    names, topics = [bench.topic() for _ in range(2)], bench.broker.topics()
    begin = threading.Barrier(24)

    def look() -> tuple[int, int]:
        begin.wait(DEADLINE)
        ends = topics.log_ends([Partition(name, 0) for name in names])
        return len(topics.describe(names)), len(ends)

    with ThreadPoolExecutor(24) as threads:
        found = [each.result(DEADLINE) for each in [threads.submit(look) for _ in range(24)]]
    assert found == [(2, 2)] * 24


def test_a_position_outside_the_log_is_refused_and_the_start_is_known(
    bench: Bench, reader: Reader
) -> None:
    topic = bench.topic()
    where = Partition(topic, 0)
    bench.fill(topic, [b"0", b"1", b"2", b"3"])
    topics = bench.broker.topics()
    bench.trim({where: 3})
    assert topics.log_starts([where]) == {where: 3}
    assert topics.log_ends([where]) == {where: 4}
    reader.assign([where])
    for outside in (1, 5):
        reader.seek(where, outside)
        with pytest.raises(FatalError, match=r"outside the log"):
            until(lambda: reader.poll(0.2))
    reader.seek(where, 3)
    got = []
    until(lambda: got.extend(r.value for r in reader.poll(0.2)) or got)
    assert got == [b"3"]


def test_compaction_keeps_the_last_of_each_key_at_its_offset(bench: Bench, sink: Sink) -> None:
    topic = bench.topic(
        cleanup_policy="compact",
        segment_bytes=str(1 << 20),
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="100",
    )
    where = Partition(topic, 0)
    for n in range(6):
        sink.send(topic, b"%d" % (n % 2), b"%d" % n).wait(DEADLINE)

    def compacted() -> bool:
        # Kafka cleans closed segments only; a later record closes the one before.
        sink.send(topic, b"last", b"last").wait(DEADLINE)
        if bench.kind != "kafka":
            bench.broker.compact(topic)  # type: ignore[attr-defined]
        time.sleep(0.3 if bench.kind == "kafka" else 0)
        return [r.offset for r in bench.read(where)][:2] == [4, 5]

    until(compacted)
    records = bench.read(where)
    assert [(r.offset, r.key, r.value) for r in records[:2]] == [(4, b"0", b"4"), (5, b"1", b"5")]
    assert bench.read(where, start=1)[0].offset == 4
    assert bench.broker.topics().log_ends([where]) == {where: records[-1].offset + 1}


def test_describe_returns_partitions_and_settings_of_existing_topics(bench: Bench) -> None:
    settings = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "12345"}
    name, missing = bench.name(), bench.name("missing")
    topics = bench.broker.topics()
    spec = TopicSpec(name, 3, settings)
    assert topics.create([spec]) == [name]
    assert topics.create([spec]) == []
    described = topics.describe([name, missing])
    assert set(described) == {name}
    assert (described[name].name, described[name].partitions) == (name, 3)
    assert settings.items() <= described[name].settings.items()
    assert described[name].settings["cleanup.policy"] == "delete"
    assert topics.describe([]) == {}
    some = topics.describe([name, missing], ("max.message.bytes",))
    assert some[name].settings == {"max.message.bytes": "12345"}
    none = topics.describe([name, missing], ())
    assert none == {name: replace(described[name], settings={})}


def test_a_wrong_setting_or_count_is_refused(bench: Bench) -> None:
    topics = bench.broker.topics()
    name = bench.name()
    for spec in (
        TopicSpec(name, 1, {"no.such.setting": "1"}),
        TopicSpec(name, 1, {"cleanup.policy": "burn"}),
        TopicSpec(name, 1, {"max.message.bytes": "many"}),
        TopicSpec(name, 0),
    ):
        with pytest.raises(FatalError):
            topics.create([spec])
    assert topics.describe([name]) == {}


def test_a_topic_created_again_has_another_id_and_an_empty_log(bench: Bench) -> None:
    topic = bench.topic(partitions=2)
    bench.fill(topic, [b"old"])
    topics = bench.broker.topics()
    before = topics.describe([topic])[topic].id
    assert topics.describe([topic])[topic].id == before
    topics.delete([topic, bench.name("missing")])
    assert topics.describe([topic]) == {}
    topics.create([TopicSpec(topic, 2)])
    assert topics.describe([topic])[topic].id != before
    where = Partition(topic, 0)
    assert topics.log_ends([where]) == {where: 0}
    bench.fill(topic, [b"new"])
    assert [r.value for r in bench.read(where)] == [b"new"]


def test_closing_twice_is_harmless_and_a_closed_client_refuses(bench: Bench) -> None:
    topic = bench.topic()
    sink, reader = bench.broker.sink(), bench.broker.reader()
    group = bench.broker.group_reader(bench.name("g"))
    delivery = sink.send(topic, b"k", b"v")
    for _ in range(2):
        sink.close(DEADLINE)
        reader.close()
        group.close(DEADLINE)
    assert delivery.wait(DEADLINE) == 0  # closing has flushed it
    with pytest.raises(FatalError, match=r"closed"):
        sink.send(topic, b"k", b"v")
    with pytest.raises(FatalError, match=r"closed"):
        reader.poll(0.0)
    with pytest.raises(FatalError, match=r"closed"):
        group.poll(0.0)
    bench.broker.close()
    bench.broker.close()


def test_closing_the_broker_closes_what_it_handed_out(bench: Bench) -> None:
    topic = bench.topic()
    sink, reader = bench.broker.sink(), bench.broker.reader()
    bench.broker.close()
    with pytest.raises(FatalError, match=r"closed"):
        sink.send(topic, b"k", b"v")
    with pytest.raises(FatalError, match=r"closed"):
        reader.poll(0.0)


def test_a_closed_client_is_not_kept(bench: Bench) -> None:
    def closed_clients() -> list[weakref.ref[object]]:
        sink, reader = bench.broker.sink(), bench.broker.reader()
        group = bench.broker.group_reader(bench.name("g"))
        sink.close(DEADLINE)
        reader.close()
        group.close(DEADLINE)
        return [weakref.ref(client) for client in (sink, reader, group)]

    def forgotten() -> bool:
        gc.collect()
        return not any(client() for client in kept)

    kept = closed_clients()
    bench.broker.reader()
    until(forgotten)


def test_an_unacknowledged_send_is_recoverable(bench: Bench) -> None:
    if bench.kind == "kafka":
        pytest.skip("a real broker has to be frozen: test_transport_failures.py does that")
    topic = bench.topic()
    bench.broker.stall(Partition(topic, 0))  # type: ignore[attr-defined]
    sink = bench.broker.sink()
    delivery = sink.send(topic, b"k", b"v")
    assert not delivery.done()
    with pytest.raises(RecoverableError, match=r"within"):
        delivery.wait(0.05)
    bench.broker.release(Partition(topic, 0))  # type: ignore[attr-defined]
    assert delivery.wait(DEADLINE) == 0


def test_a_setting_can_be_changed_and_the_others_stay(bench: Bench) -> None:
    topic = bench.topic(retention_ms="12345678")
    topics, sink = bench.broker.topics(), bench.broker.sink()
    sink.send(topic, b"k", b"x" * 2000).wait(DEADLINE)
    topics.alter([topic], {"max.message.bytes": "128"})

    def described() -> tuple[str, str]:
        settings = topics.describe([topic])[topic].settings
        return settings["max.message.bytes"], settings["retention.ms"]

    # The controller acknowledges the change; the leader of the topic learns it a little later.
    until(lambda: described() == ("128", "12345678"))
    with pytest.raises(FatalError, match="too large"):
        until(lambda: sink.send(topic, b"k", b"x" * 2000).wait(DEADLINE) < 0)
    sink.send(topic, None, b"x" * 20).wait(DEADLINE)
    with pytest.raises(FatalError):
        topics.alter([topic], {"no.such.setting": "1"})
    with pytest.raises(FatalError):
        topics.alter([bench.name()], {"retention.ms": "1"})
    sink.close(DEADLINE)


def test_chunks_are_the_records_that_polls_return(bench: Bench) -> None:
    topic = bench.topic()
    values = [b"%d" % i * (i % 40) for i in range(1200)]
    sink = bench.broker.sink()
    sent = [
        sink.send(topic, None if i % 7 == 3 else b"k%d" % i, v or None, headers=(("h", b"x"),))
        if i % 50 == 0
        else sink.send(topic, b"k%d" % i, v)
        for i, v in enumerate(values)
    ]
    for delivery in sent:
        delivery.wait(DEADLINE)
    sink.close(DEADLINE)
    where = Partition(topic, 0)
    expected = bench.read(where)
    reader = bench.broker.reader()
    reader.assign([where])
    reader.seek(where, 0)
    found: list[Record] = []

    def poll() -> bool:
        chunks = reader.poll_chunks(0.2, 100)
        assert sum(map(len, chunks)) <= 100
        assert all(len(chunk) and chunk.partition == where for chunk in chunks)
        found.extend(record for chunk in chunks for record in chunk.records())
        return reader.position(where) >= len(values)

    until(poll)
    assert found == expected
    assert len(found) == len(values)
    reader.close()
