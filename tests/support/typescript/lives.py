"""Lives many devices in both languages: `make lives` (ARGS="--lives 1000 --first 1").

Equal records and reports in Python and TypeScript, no day of a clock that is only set back counted
twice, and a report at exactly the moments at which a device without a recorder makes one. A tenth
of the devices is killed after every step, a tenth has no clock that runs ahead.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from calmstream import rejoin, withdraw
from tests.support.producer import unsigned_reporter
from tests.support.typescript.package import answers
from tests.support.typescript.recorded import DAY, Device, Json, Life, life, lived_by

CHUNK = 500
TIMEOUT = 7200.0


def lived(number: int) -> Life:
    found = life(number, ahead=number % 10 != 0)
    if number % 10 == 1:
        found.steps = [
            each
            for step in found.steps
            for each in (step, {"kind": "restart", "now": step["now"], "real": step["real"]})
        ]
    return found


def moments(found: Life, given: list[Json]) -> tuple[int, str]:
    """Return the number of reports, and where they differ from those without a recorder."""
    other, reports = Device(found), 0
    plain = unsigned_reporter(found.plan, other.store, clock=lambda: other.now)
    for number, (step, answer) in enumerate(zip(found.steps, given, strict=True)):
        other.now = step["now"]
        if step["kind"] == "report":
            report = plain.report({})
            reports += report is not None
            if (report is None) != (answer["report"] is None):
                return reports, f"step {number}: a report at another moment"
        elif step["kind"] == "withdraw":
            withdraw(other.store)
        elif step["kind"] in {"rejoin", "return"}:
            rejoin(other.store)
    return reports, ""


def twice(found: Life, given: list[Json]) -> str:
    """Return where more days count than there were, by true time or by the device's clock.

    A clock set right passes a day; what was erased is counted anew.
    """
    noted: dict[str, set[tuple[str, int]]] = {"real": set(), "now": set()}
    for number, (step, answer) in enumerate(zip(found.steps, given, strict=True)):
        if step["kind"] in {"withdraw", "return"}:
            noted = {"real": set(), "now": set()}
        for clock in noted if step["kind"] == "note" else ():
            noted[clock].add((step["name"], step[clock] // (1000 * DAY)))
        for attribute in found.plan.domain.attributes:
            source = attribute.recorded
            if "record" in answer and source and source.take == "days":
                days = [sum(name == source.name for name, _ in each) for each in noted.values()]
                if answer["record"][attribute.name] > max(days):
                    return f"step {number}: a day twice"
    return ""


def wrong(first: int, count: int) -> tuple[list[str], int]:
    """Return what is wrong with some lives, a line each, and the number of their reports."""
    found = [lived(number) for number in range(first, first + count)]
    given = [lived_by(one) for one in found]
    ours = [own for _, own in given]
    theirs = answers("record", [text for text, _ in given], TIMEOUT, ["many"])
    lines, total = [], 0
    for number, one in enumerate(found):
        reports, moment = moments(one, ours[number])
        total += reports
        again = twice(one, ours[number]) if (first + number) % 10 == 0 else ""
        differ = "" if json.loads(theirs[number]) == ours[number] else "the languages differ"
        lines += [f"life {first + number}: {why}" for why in (moment, again, differ) if why]
    return lines, total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=1_000_000, help="number of the first life")
    given = parser.parse_args()
    bad, began, total = 0, time.monotonic(), 0
    for start in range(given.first, given.first + given.lives, CHUNK):
        lines, reports = wrong(start, min(CHUNK, given.first + given.lives - start))
        bad, total = bad + len(lines), total + reports
        done = min(start + CHUNK, given.first + given.lives) - given.first
        line = f"{done:,} lives, {total:,} reports, {bad} wrong, {time.monotonic() - began:.0f} s"
        print("\n".join([*lines[:3], line]), flush=True)  # noqa: T201 - what was asked for
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
