"""List the newest refused records and their places in the log, and the number by reason.

To count late ones after all: calmstream consume --output-namespace NS --grace SECONDS.
"""

from __future__ import annotations

import argparse
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime

import structlog

from calmstream import arguments
from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker, Partition
from calmstream.common.clock import SystemClock
from calmstream.common.errors import Reason
from calmstream.connect import names_of, opened
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter
from calmstream.consumer.runtime.read_topics import TopicReader
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.dead_letter import DeadLetter
from calmstream.output import say_json
from calmstream.terminal import Console, grid


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, *arguments.RESULTS, "--json")
    reasons = [reason.value for reason in Reason]
    parser.add_argument("--reason", choices=reasons, help="only records refused for this reason")
    parser.add_argument(
        "--last", type=arguments.positive, default=20, metavar="N", help="default: %(default)s"
    )


def run(args: argparse.Namespace) -> int:
    plan = arguments.load_plan(args.plan)
    names = names_of(args, plan)
    numbers: Counter[Reason] = Counter()
    newest: deque[DeadLetter] = deque(maxlen=args.last)
    with opened(args) as broker:
        for letter in letters(plan, broker, names):
            numbers[letter.reason] += letter.records
            if args.reason in (None, letter.reason.value):
                newest.append(letter)
    if args.json:
        say_json(*(document(letter, names) for letter in newest))
    else:
        show(newest, numbers, names, Console())
    return 0


def letters(plan: Plan, broker: Broker, names: TopicNames) -> Iterator[DeadLetter]:
    """Yield the dead letters of a plan, the oldest first; a resend comes once."""
    source = TopicReader(broker, [Partition(names.dead_letters, 0)], SystemClock())
    foreign = ForeignRecordCounter(structlog.get_logger("calmstream.dead_letters").warning)
    seen: set[tuple[str, int, int]] = set()
    with closing(source):
        for record in source.to_end():
            with foreign.reading(record):
                letter = DeadLetter.from_headers(record.headers, plan)
                origin = letter.topic, letter.partition, letter.offset
                if origin not in seen:
                    seen.add(origin)
                    yield letter


def document(letter: DeadLetter, names: TopicNames) -> dict[str, str | int]:
    """Return what ``--json`` prints; ``time`` is in seconds since the epoch."""
    return {
        "reason": letter.reason.value,
        "detail": letter.detail,
        "group": names.group_of(letter.topic),
        "partition": letter.partition,
        "offset": letter.offset,
        "records": letter.records,
        "time": letter.timestamp // 1000,
        "bytes": letter.length,
    }


def show(
    newest: Iterable[DeadLetter], numbers: Counter[Reason], names: TopicNames, console: Console
) -> None:
    table = grid("time", "reason", "where", "bytes", "detail")
    for letter in newest:
        time = datetime.fromtimestamp(letter.timestamp / 1000, UTC)
        where = f"g{names.group_of(letter.topic)}[{letter.partition}] {letter.offset:,}"
        cells = (f"{time:%m-%d %H:%M:%S}", letter.reason.value, where, f"{letter.length:,}")
        table.add_row(*cells, letter.detail)
    console.print(table)
    listed = ", ".join(f"{reason.value} {number:,}" for reason, number in sorted(numbers.items()))
    console.print(f"\nall dead letters that are kept: {listed or 'none'}")
    if Reason.LATE in numbers:
        command = "calmstream consume --plan FILE --output-namespace NEW --grace SECONDS"
        console.print(f"to count late ones after all:\n{command}", soft_wrap=True)
