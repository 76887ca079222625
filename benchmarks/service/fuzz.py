"""Give a million malformed messages to the code that decodes, checks and counts a worker's input.

    python -m benchmarks.service.fuzz [--messages N] [--seed S]

A worker counts each partition by a *fold* (`tally.folding`), an object that takes records
one after another or many at once. The fold must either accept a message as a valid batch or reject
it. Every message is folded both ways; a difference, or any other exception than a rejection, ends
the run, and the message is printed. At the end the program prints how often each
outcome occurred: acceptance, tick (a record without reports that only moves time on), or rejection
by reason.

Then as many records of the other topics (snapshots, counts, state, tests of change, dead letters,
releases), each with one to three fields of another type, go to their readers, twice. Both times a
record must be read or be foreign, with the same verdict.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections import Counter

from calmstream.broker.transport import Chunk, Partition, Record
from calmstream.consumer.tally.folding.fold import PartitionFold
from tests.support.attacks.fuzzing import messages, plan_of
from tests.support.attacks.typed_mutants import cases, paths, random_mutant, verdict
from tests.support.tally import RecordOutcome, accepted_ids, fold_one, outcome_of

CHUNK = 200  # number of messages that are folded at once

Folded = tuple[Record, RecordOutcome]


def compare(joined: PartitionFold, single: PartitionFold, folded: list[Folded]) -> None:
    """Fold records at once; check that verdicts and counts are those of folding them one by one."""
    chunk = Chunk.of([record for record, _ in folded])
    expectations = iter(folded)
    for result in joined.fold(chunk):
        for index in range(len(result.records)):
            record, expected = next(expectations)
            found = outcome_of(result, index)
            alike = (found.reports, str(found.rejection)) == (
                expected.reports,
                str(expected.rejection),
            )
            assert alike, f"key {record.key!r}, value {record.value!r}: {expected}, {found}"
    one, other = joined.state(), single.state()
    assert (one.next_offset, one.clock, one.resume_from) == (
        other.next_offset,
        other.clock,
        other.resume_from,
    )
    for window, count in one.open.items():
        assert (count.tally.counts == other.open[window].tally.counts).all()
    assert accepted_ids(joined) == accepted_ids(single)


def read_mutants(number: int, seed: int) -> None:
    """Give mutants of every format to its reader, and print the verdicts."""
    dice = random.Random(seed)  # noqa: S311 - a seed repeats the run
    listed, began = cases(), time.monotonic()
    ways = {name: list(paths(case.body)) for name, case in listed.items()}
    verdicts: dict[str, Counter[str]] = {name: Counter() for name in listed}
    for name in itertools.islice(itertools.cycle(listed), number):
        raw = random_mutant(listed[name], dice, ways[name])
        try:
            found = verdict(listed[name], raw)
            assert found in ("read", "foreign", "newer"), found
            assert verdict(listed[name], raw) == found
        except BaseException:
            print(f"{name}: {raw!r}")
            raise
        verdicts[name][found] += 1
    print(f"{number:,} records with other types in {time.monotonic() - began:.0f} s:")
    for name, counted in verdicts.items():
        print(f"  {name:16} {', '.join(f'{n:,} {what}' for what, n in counted.most_common())}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--mutants", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=20261120)
    args = parser.parse_args()
    plan = plan_of()
    groups = range(len(plan.groups))
    folds = [PartitionFold.start(plan, group, "fuzz") for group in groups]
    joined = [PartitionFold.start(plan, group, "fuzz") for group in groups]
    waiting: list[list[Folded]] = [[] for _ in groups]
    streams = [messages(plan, group, args.seed + group, pool=400) for group in groups]
    outcomes: Counter[str] = Counter()
    began = time.monotonic()
    for number, group in enumerate(itertools.islice(itertools.cycle(groups), args.messages)):
        key, value = next(streams[group])
        # Time advances slowly, so that windows stay open to the end.
        stamp = plan.start * 1000 + 500 + number * 30_000 // args.messages
        one = Record(Partition("fuzz", 0), number, stamp, True, key, value)
        try:
            outcome = fold_one(folds[group], one)
        except BaseException:
            print(f"message {number} of group {group}: key {key!r}, value {value!r}")
            raise
        waiting[group].append((one, outcome))
        if len(waiting[group]) == CHUNK:
            compare(joined[group], folds[group], waiting[group])
            waiting[group].clear()
        if outcome.rejection is not None:
            outcomes[outcome.rejection.reason.value] += 1
        else:
            outcomes["accepted" if outcome.reports else "tick"] += 1
    seconds = time.monotonic() - began
    print(f"{args.messages:,} messages in {seconds:.0f} s, no exception but rejections:")
    for what, count in outcomes.most_common():
        print(f"  {what:16} {count:9,}")
    read_mutants(args.mutants, args.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
