"""Exchange every process for another version, as the runbook says, and go back, under reports."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from calmstream import subscribe
from tests.support.ports import free_port
from tests.support.service.place import SECONDS, Place
from tests.support.service.processes import until
from tests.support.wheels import installed, wheel

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

EARLIER = "b048aa50"  # the commit of the latest release, 1.0.0
OLD, NEW = "0.0.1", "0.0.2"


class Watch:
    """Reports that flow, and what the observers say meanwhile."""

    def __init__(self, place: Place) -> None:
        self.place, self.end = place, threading.Event()
        self.said: set[str] = set()  # words of ``status``, with their reasons
        self.ready: set[str] = set()  # answers of ``/readyz`` other than 200 and than none
        self.again, self.pause = 0, 0.0  # the longest time between two finals, in seconds

    def flow(self) -> None:
        """One device after another; each sends its report again while no gateway takes it."""
        while not self.end.wait(0.1):
            body = self.place.body()
            while (code := self.place.post("settings", body)) in (0, 503):
                self.again += 1
                self.end.wait(0.2)
            self.place.acknowledged["settings"] += code == 202

    def observe(self) -> None:
        seen, since = 0, time.monotonic()
        while not self.end.wait(1.0):
            for name, process in list(self.place.processes.items()):
                code, body = process.page("/readyz", seconds=2.0)
                if code not in (0, 200):
                    self.ready.add(f"{name}: {code} {body.strip()[:80]}")
            self.said.add(self.place.status()["settings"])
            if (now := len(finals(self.place))) != seen:
                self.pause = max(self.pause, time.monotonic() - since)
                seen, since = now, time.monotonic()


@contextmanager
def watched(place: Place) -> Iterator[Watch]:
    watch = Watch(place)
    threads = [threading.Thread(target=one) for one in (watch.flow, watch.observe)]
    for thread in threads:
        thread.start()
    try:
        yield watch
    finally:
        watch.end.set()
        for thread in threads:
            thread.join(SECONDS)
            assert not thread.is_alive()


def start(place: Place, name: str) -> None:
    """Start a process in the place's version; a former one of this name has ended."""
    if name == "gateway":
        place.start_gateway()
        return
    role = {"publisher": "publish"}.get(name, "tally")
    place.start(name, *{
        "sink": ("sink", "--to", f"parquet:{place.folder / 'results'}"),
        "serve": ("serve", "--port", free_port()),
    }.get(name, ("consume", "--role", role)))  # fmt: skip


def exchange(place: Place, *, back: bool) -> None:
    """Run the page's loop; where it restarts a process, one of the place's version takes over."""
    order = "sink serve publisher tally1 tally2 gateway"
    script = place.script("upgrade", **{
        'systemctl restart "$process"': 'echo "$process"; read -r',
        "$process:9464": "127.0.0.1:$(cat $process.port)",
        "roots.pub": "roots.pub || true",  # what it says is watched all the time
        order: " ".join(reversed(order.split())) if back else order,
    })  # fmt: skip
    for name, process in place.processes.items():
        (place.folder / f"{name}.port").write_text(f"{process.port}\n")
    loop = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=place.folder, env=place.variables(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert loop.stdin is not None
    assert loop.stdout is not None
    restarted = []
    for line in loop.stdout:
        if (name := line.strip()) in place.processes:
            place.processes[name].signal(signal.SIGTERM)
            assert place.processes[name].wait(60) == 0, place.processes[name].tail()
            start(place, name)
            restarted.append(name)
            print(file=loop.stdin, flush=True)
    assert loop.wait(60) == 0
    assert len(restarted) == len(place.processes)


def test_every_process_goes_to_another_version_and_back(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    old = installed(wheel(tmp_path, commit=EARLIER, version=OLD), tmp_path / "old")
    new = installed(wheel(tmp_path, version=NEW), tmp_path / "new")
    with ExitStack() as stack:
        place = Place(kafka_bootstrap, tmp_path / "place", stack, old)
        for name in ("sink", "serve", "publisher", "tally1", "tally2", "gateway"):
            start(place, name)
        place.added("settings")
        with watched(place) as watch:
            for direction, program in (("upgrade", new), ("go back", old)):
                place.begin()
                place.program = program
                exchange(place, back=program is old)
                seen = len(finals(place))
                until("another final", lambda n=seen: len(finals(place)) > n, SECONDS, 0.5)
                place.healthy(["settings"])
                place.took(direction)
        place.exact("settings")
        last = place.plan().window_at(time.time_ns() // 1_000_000)
        until("the last final", lambda: max(finals(place)) >= last, SECONDS, 0.5)
        place.took("after both", "settings")
        print(f"{watch.said}\n{watch.ready}\n{watch.pause:.0f} s, {watch.again} sent again")  # noqa: T201
        found = finals(place)
        assert sorted(found) == list(range(len(found)))
        assert sum(reports for reports, _ in found.values()) == place.acknowledged["settings"]
        assert {software for _, software in found.values()} == {OLD, NEW}
        # Who works changes by the second; nothing else is wrong at any time.
        away = ("well", "late", "fault: no publisher works", "fault: no worker reads")
        assert all(words.startswith(away) for words in watch.said)
        assert place.look().windows.kept == len(found), "the counts of both versions can be read"
        stored, all_of_them = place.folder / "results", len(found)
        until("a sink", lambda: len(list(stored.rglob("final-*.parquet"))) == all_of_them, SECONDS)


def finals(place: Place) -> dict[int, tuple[int, str]]:
    shown = subscribe(place.plan(), place.bootstrap, kinds=["final"], from_window=0, follow=False,
                      namespace=place.namespace)  # fmt: skip
    return {s.manifest.window: (s.manifest.reports, s.manifest.software) for s in shown}
