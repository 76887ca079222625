"""Make every situation happen, and say how soon each observer says so: docs/health.md.

python -m benchmarks.service.situations            # all, about half an hour; writes the table
python -m benchmarks.service.situations --only worker   # those with this word; prints only
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.deploy import alerts
from tests.support.service.fleet import Fleet, measured
from tests.support.service.situations import SITUATIONS, Situation
from tests.support.sink.postgres import PostgresServer, programs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "health.md"
MARK = "<!-- made by benchmarks/service/situations.py -->\n"
HEADS = ("situation", "`status`", "`/readyz`", "dashboard", "alert, seconds until its condition")


@contextmanager
def fleet(*, results: bool = True, session: int = 20) -> Iterator[Fleet]:
    """Run the deployment of the situations, with or without those who store and show results."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        found = programs() if results else None
        database = None if found is None else PostgresServer(found)
        if database is not None:
            stack.callback(database.close)
        yield Fleet(folder, stack, database, session=session)


def seconds_of(one: Fleet, name: str) -> dict[str, float]:
    """Measure a situation, undo it, and wait until all is well again."""
    situation = SITUATIONS[name]
    try:
        return measured(one, situation.expected, lambda: situation.cause(one))
    finally:
        situation.undo(one)
        one.recover()


def row(name: str, situation: Situation, found: Mapping[str, float]) -> str:
    """Return a line of the table: what each says, and after how many seconds."""
    expected = situation.expected

    def cell(observer: str, text: str) -> str:
        return f"{text}, {found[observer]:.0f}" if observer in found else "–"

    word = expected.status[1].lstrip("^").split(":")[0].split(".")[0]
    word = "fails" if word == "calmstream" else word
    ready = {"^0": "no answer", "^2": "200", "^5": "503"}.get(expected.ready[1][:2], "reason")
    said = "200, reason" if "^200.*" in expected.ready[1] else ready
    alert = expected.alert.removeprefix("Calmstream")
    rule = alerts().get(expected.alert)
    after = f" (+ {rule['for']})" if rule and "for" in rule else ""
    alarm = "none" if alert == "none" else cell("alert", alert) + after
    title = "" if expected.panel is None else expected.panel[0]
    cells = (name, cell("status", word), cell("readyz", said), cell("panel", title), alarm)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="situations with this text; nothing is written")
    only = parser.parse_args().only
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no process is left behind
    lines = [f"| {' | '.join(HEADS)} |", "|" + "---|" * len(HEADS)]
    slowest, failed = 0.0, []
    with fleet() as one:
        for name, situation in SITUATIONS.items():
            if only not in name or (situation.needs and not getattr(one, situation.needs)):
                continue
            began = time.monotonic()
            try:
                found = seconds_of(one, name)
            except AssertionError as error:
                failed.append(name)
                print(f"{name}: {error}", flush=True)
                continue
            slowest = max(slowest, *found.values())
            lines.append(row(name, situation, found))
            print(lines[-1], f"  [{time.monotonic() - began:.0f} s]", flush=True)
    print(f"slowest: {slowest:.0f} s")
    if not only:
        head, _, _ = PAGE.read_text().partition(MARK)
        PAGE.write_text(head + MARK + "\n" + "\n".join(lines) + "\n")
    if failed:
        raise SystemExit(f"not as expected: {', '.join(failed)}")


if __name__ == "__main__":
    main()
