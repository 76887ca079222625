"""Measure what a tally worker counts with one active plan and with 20.

Three settings are compared: one plan of four groups, one plan of 80 groups, and 20 plans of four
groups. The last two have as many topics. Every group has one partition. The record batches of the
log have the same number of records in every setting.

``backlog`` lets a worker take all partitions, freezes it, appends N batches of ten reports to the
topics of a setting, and lets it go on. The log has W windows with the same number of batches each:
after those of a window the sender waits for the next one, because append times decide. The rate is
that from the moment at which a tenth has been counted to the end: before, the worker connects again
and makes up for checks of its topics. The CPU contains the checkpoints and closed windows of this
time.

``live`` appends batches at a fixed rate instead, and measures the CPU of the worker meanwhile.

With ``quick``, librdkafka appends the backlog, several times as fast. It needs the package
confluent-kafka, which calmstream does not depend on.

A run measures the settings one after another, R times, so that other work of the machine meets all
of them.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.service.plans_setting import (
    REPORTS,
    Connection,
    Plans,
    accepted,
    cpu_seconds,
    plan_of,
    start,
)
from calmstream.broker.transport import Sink
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.limits import MAX_BATCHES, Limits
from calmstream.estimators.wire.batch import Batch, encode_batch
from tests.support.service.processes import Process, until

Setting = tuple[int, int]
"""Number of plans, and of the groups of each."""

SETTINGS: tuple[Setting, ...] = ((1, 4), (1, 80), (20, 4))
MANY = SETTINGS[-1]

RUN = 50
"""Number of records of a record batch in the log."""

GRACE = 10
WARM = 0.1
"""Part of the batches that is counted before the measurement begins."""

COUNT_SECONDS = 300.0
LOOK_SECONDS = 0.1
SETTLE_SECONDS = 3.0
IDLE_SECONDS = 10.0


@dataclass(frozen=True)
class Rate:
    """Batches in a second of CPU, and in a second; 0 where it is not measured."""

    cpu: float
    real: float


class Appender(Protocol):
    """Appends records to partition 0 of topics."""

    def send(self, topic: str, key: bytes, value: bytes) -> None:
        """Append a record."""

    def end_round(self) -> None:
        """Note that every partition has got as many records as a record batch has."""

    def flush(self) -> None:
        """Wait until all records are acknowledged."""


class Plain:
    """Appends with the client of the product."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def send(self, topic: str, key: bytes, value: bytes) -> None:
        """Append a record."""
        self._sink.send(topic, key, value, partition=0)

    def end_round(self) -> None:
        """Send the record batches; otherwise few partitions would get larger ones than many."""
        self._sink.flush(60)

    flush = end_round


class Quick:
    """Appends with librdkafka, in record batches of at most ``RUN`` records."""

    def __init__(self, bootstrap: str) -> None:
        import confluent_kafka

        self._failed = 0
        settings = {
            "linger.ms": 20,
            "batch.num.messages": RUN,
            "queue.buffering.max.messages": 10_000_000,
        }
        self._producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **settings})

    def send(self, topic: str, key: bytes, value: bytes) -> None:
        """Append a record."""
        self._producer.produce(topic, value, key, 0, on_delivery=self._note)

    def end_round(self) -> None:
        """Note the acknowledgements that have come."""
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all records are acknowledged."""
        if self._producer.flush(60) or self._failed:
            raise SystemExit("some batches were not acknowledged")

    def _note(self, error: object, _message: object) -> None:
        self._failed += error is not None


def backlog(
    bootstrap: str, batches: int, windows: int, window: int, repeats: int, *, quick: bool
) -> None:
    """Compare the rates at which a backlog is counted."""

    def measure(stack: ExitStack, setting: Setting) -> Rate:
        plans, worker = _begin(stack, bootstrap, setting, window)
        worker.signal(signal.SIGSTOP)
        if quick:
            appender: Appender = Quick(bootstrap)
        else:
            sink = stack.enter_context(Connection(bootstrap)).sink()
            stack.callback(sink.close, 60)
            appender = Plain(sink)
        for _ in range(windows):
            _append(appender, plans, batches // windows, windows > 1)
        worker.signal(signal.SIGCONT)
        rate = _rate(worker, batches // windows * windows)
        each = f"{rate.real:,.0f} batches a second, {rate.cpu:,.0f} a second of CPU"
        print(f"{_words(setting)}: {each}", flush=True)
        return rate

    _compare(measure, repeats)


def live(bootstrap: str, per_second: int, seconds: float, window: int, repeats: int) -> None:
    """Compare the CPU of a worker that gets batches at a fixed rate."""

    def measure(stack: ExitStack, setting: Setting) -> Rate:
        plans, worker = _begin(stack, bootstrap, setting, window)
        idle = _cpu_of(worker, lambda: time.sleep(IDLE_SECONDS)) / IDLE_SECONDS
        sink = stack.enter_context(Connection(bootstrap)).sink()
        stack.callback(sink.close, 60)
        sender = _Sender(sink, plans, per_second)
        sender.start()
        time.sleep(SETTLE_SECONDS)
        sent = sender.sent
        cpu = _cpu_of(worker, lambda: time.sleep(seconds))
        batches = sender.sent - sent
        sender.stop()
        total = REPORTS * sender.sent
        until("all is counted", lambda: _counted(worker) == total, COUNT_SECONDS, LOOK_SECONDS)
        print(
            f"{_words(setting)}: {batches / seconds:,.0f} batches a second, "
            f"{100 * cpu / seconds:.0f} % of a core, idle {100 * idle:.1f} %, "
            f"{1e6 * cpu / batches:.0f} microseconds of CPU for each batch",
            flush=True,
        )
        return Rate(batches / cpu, 0.0)

    _compare(measure, repeats)


def _compare(measure: Callable[[ExitStack, Setting], Rate], repeats: int) -> None:
    """Measure every setting R times, and print the ratios of 20 plans to one."""
    rates: dict[Setting, list[Rate]] = {setting: [] for setting in SETTINGS}
    for repeat in range(repeats):
        first = repeat % len(SETTINGS)
        for setting in (*SETTINGS[first:], *SETTINGS[:first]):
            with ExitStack() as stack:
                rates[setting].append(measure(stack, setting))
    for setting in SETTINGS[:-1]:
        pairs = list(zip(rates[MANY], rates[setting], strict=True))
        ratios = {"per second of CPU": [many.cpu / one.cpu for many, one in pairs]}
        if all(one.real for _many, one in pairs):
            ratios["per second"] = [many.real / one.real for many, one in pairs]
        for what, values in ratios.items():
            each = " ".join(f"{value:.2f}" for value in values)
            print(
                f"{_words(MANY)} against {_words(setting)}, batches {what}: "
                f"median {np.median(values):.2f}, best {max(values):.2f} ({each})"
            )


def _begin(
    stack: ExitStack, bootstrap: str, setting: Setting, window: int
) -> tuple[Plans, Process]:
    """Create the topics of a setting, and start a worker that holds all partitions."""
    number, groups = setting
    name = f"busy-{number}-{groups}"
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    made = tuple(_plan(f"{name}-{n:02}", groups, window) for n in range(number))
    plans = Plans(f"{name}-{os.getpid()}-{time.time_ns() % 10**6}", made, folder)
    plans.put_all(stack, stack.enter_context(Connection(bootstrap)))
    return plans, start(stack, bootstrap, plans, "tally", {"CALMSTREAM_SESSION_SECONDS": "600"})


def _plan(name: str, groups: int, window: int) -> Plan:
    """Return a plan that begins now, has no limit of batches, and lasts for an hour or longer."""
    begins = int(time.time())
    plan = plan_of(name, groups)
    times = {"start": begins, "expires": begins + (3600 // window + 1) * window, "window": window}
    limits = replace(plan.limits, batches=MAX_BATCHES) if plan.limits else Limits(1024, MAX_BATCHES)
    return replace(plan, **times, grace=GRACE, limits=limits)


def _append(appender: Appender, plans: Plans, batches: int, whole_window: bool) -> None:
    """Append batches in record batches of equal size; wait for a new window before them."""
    length = plans.plans[0].window
    since = time.time() - plans.plans[0].start
    window = since // length + 1 if whole_window else since // length
    time.sleep(max(0.0, window * length - since))
    values, partitions = _Values(), sum(len(plan.groups) for plan in plans.plans)
    for index, (plan, topic, group) in enumerate(islice(_turns(plans), -(-batches // RUN))):
        value = values.now(plan, group)
        for _ in range(min(RUN, batches - index * RUN)):
            appender.send(topic, os.urandom(16), value)
        if (index + 1) % partitions == 0:
            appender.end_round()
    appender.flush()
    if time.time() - plans.plans[0].start >= (window + 1) * length:
        raise SystemExit(f"{batches:,} batches take longer than a window of {length} s")


def _turns(plans: Plans) -> Iterator[tuple[Plan, str, int]]:
    """Yield the groups of all plans in turn, without end."""
    names = [plan_names(plan, plans.namespace) for plan in plans.plans]
    for _round in count():
        for plan, name in zip(plans.plans, names, strict=True):
            for group in range(len(plan.groups)):
                yield plan, name.reports(group), group


class _Values:
    """Encodes one batch for each group and window."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, int], bytes] = {}

    def now(self, plan: Plan, group: int) -> bytes:
        """Return a batch of the present window."""
        period = plan.window_at(int(time.time() * 1000))
        key = plan.name, group, period
        if key not in self._kept:
            batch = Batch(period, REPORTS, None, {"v": np.arange(REPORTS) % 4})
            self._kept[key] = encode_batch(plan, group, batch)
        return self._kept[key]


class _Sender(threading.Thread):
    """Appends single batches to the groups in turn at a fixed rate."""

    def __init__(self, sink: Sink, plans: Plans, per_second: int) -> None:
        super().__init__(daemon=True)
        self.sent = 0
        self._sink = sink
        self._plans = plans
        self._rate = per_second
        self._ended = threading.Event()

    def run(self) -> None:
        """Append until stopped."""
        values, turns, began = _Values(), _turns(self._plans), time.monotonic()
        while not self._ended.wait(0.005):
            for _ in range(int((time.monotonic() - began) * self._rate) - self.sent):
                plan, topic, group = next(turns)
                self._sink.send(topic, os.urandom(16), values.now(plan, group), partition=0)
                self.sent += 1

    def stop(self) -> None:
        """End, and wait for the acknowledgements."""
        self._ended.set()
        self.join()
        self._sink.flush(60)


def _rate(worker: Process, batches: int) -> Rate:
    """Return the rate from the look that finds enough counted to the one that finds all."""
    total = batches * REPORTS
    looks: list[tuple[float, float, float]] = []

    def all_counted() -> bool:
        cpu, found = cpu_seconds(worker), _counted(worker)
        if found >= WARM * total:
            looks.append((time.monotonic(), cpu, found))
        return found == total

    until("all is counted", all_counted, COUNT_SECONDS, LOOK_SECONDS)
    (began, cpu, counted), (ended, cpu_then, _) = looks[0], looks[-1]
    left = (total - counted) / REPORTS
    return Rate(left / (cpu_then - cpu), left / (ended - began))


def _counted(worker: Process) -> float:
    return sum(accepted(worker).values())


def _cpu_of(worker: Process, call: Callable[[], None]) -> float:
    before = cpu_seconds(worker)
    call()
    return cpu_seconds(worker) - before


def _words(setting: Setting) -> str:
    number, groups = setting
    return f"{number} plan{'s' * (number > 1)} of {groups} groups"
