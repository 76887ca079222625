"""Change topics and brokers under a running service; judge by counts, by time, and by what is said.

    python -m benchmarks.service.changes_of_brokers [--rounds N] [--away SECONDS]

Each round has a broker, a gateway and a service of its own, all real processes, behind one
bootstrap address, and a sender with five reports a second. The kinds of rounds take turns:

- ``partitions``: the reports topic gets four partitions instead of one;
- ``policy``: the state topic is deleted by time instead of compacted, and compacted again later;
- ``moved``: the broker stops and starts at another port behind the same bootstrap address;
- ``three``: three brokers do so, one after the other; the address leads to the last that moved;
- ``away``: the broker is away for some minutes.

A service that ends is started again after a second, as an orchestrator would. At the end of a round
every acknowledged report is counted, or the gateway's log has it as lost. A line states the seconds
until each observer has said that something is wrong, and until it is well again.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import NewPartitions

from calmstream.broker.kafka import connect
from tests.brokers.native import NativeKafka
from tests.brokers.relay import Relay
from tests.integration.faults.test_changed_topics import Stage
from tests.support.service.processes import Process

KINDS = ("partitions", "policy", "moved", "three", "away")
LIMIT = 300.0
SAID = ("gateway", "service", "status")


class Round:
    """One round: what is sent, what is said, and when."""

    def __init__(
        self, kind: str, folder: Path, brokers: list[NativeKafka], relay: Relay, away: float
    ) -> None:
        self.kind, self.brokers, self.relay, self.away = kind, brokers, relay, away
        self.stage = Stage(folder, relay.address)
        self.sending = threading.Event()
        self.ended = threading.Event()
        self.wrong: dict[str, float] = {}
        self.well: dict[str, float] = {}
        self.restarts = 0
        self.began = time.monotonic()

    def send(self) -> None:
        while not self.sending.is_set():
            with suppress(OSError):
                self.stage.report()
            time.sleep(0.2)

    def keep(self) -> None:
        """Start the service again when it has ended."""
        while not self.ended.wait(1.0):
            if not self.stage.consume.alive():
                self.restarts += 1
                self.stage.consume = Process(
                    self.stage.consume.log, "consume", *self.stage.chosen, "--role", "all"
                )

    def observe(self) -> None:
        looks: dict[str, Callable[[], bool]] = {
            "gateway": lambda: self.stage.gateway.page("/readyz")[0] == 200,
            "service": lambda: self.stage.consume.page("/readyz")[0] == 200,
            "status": self._status,
        }
        while not self.ended.is_set():
            for name, look in looks.items():
                well, now = look(), time.monotonic() - self.began
                if not well:
                    self.wrong.setdefault(name, now)
                    self.well.pop(name, None)
                elif name in self.wrong:
                    self.well.setdefault(name, now)
            self.ended.wait(1.0)

    def _status(self) -> bool:
        said = self.stage.said("status")
        try:
            return all(plan["health"] == "well" for plan in json.loads(said)["plans"])
        except (ValueError, KeyError, TypeError):
            return '"well"' in said

    def fault(self) -> None:
        names, own = self.stage.names, self.brokers[0]
        address = own.bootstrap
        if self.kind == "partitions":
            admin = KafkaAdminClient(bootstrap_servers=address)
            admin.create_partitions({names.reports(0): NewPartitions(total_count=4)})
            admin.close()
            time.sleep(45)
        elif self.kind == "policy":
            broker = connect(address)
            broker.topics().alter([names.state], {"cleanup.policy": "delete"})
            time.sleep(45)
            broker.topics().alter([names.state], {"cleanup.policy": "compact"})
            broker.close()
        elif self.kind in {"moved", "three"}:
            for broker in self.brokers:
                broker.move()
                self.relay.target = broker.bootstrap
        else:
            own.stop()
            time.sleep(self.away)
            own.start()

    def settled(self) -> bool:
        """Return whether every acknowledged report is counted or shown as lost."""
        try:
            return self.stage.counted() + self.lost() == self.stage.acknowledged
        except (ValueError, KeyError):
            return False

    def lost(self) -> int:
        lines = self.stage.gateway.log.read_text().splitlines()
        found = [re.search(r'"reports": ?(\d+)', line) for line in lines if "batch lost" in line]
        return sum(int(match.group(1)) for match in found if match)

    def run(self) -> str:
        work = [
            threading.Thread(target=w, daemon=True) for w in (self.send, self.keep, self.observe)
        ]
        for thread in work:
            thread.start()
        time.sleep(5)
        self.began = time.monotonic()
        self.wrong.clear()
        self.fault()
        healed = time.monotonic() - self.began
        time.sleep(10)
        self.sending.set()
        deadline = time.monotonic() + LIMIT
        while not self.settled() and time.monotonic() < deadline:
            time.sleep(1)
        exact = self.settled()
        time.sleep(20)
        self.ended.set()
        for thread in work:
            thread.join(60)
        said = " | ".join(
            f"{self.wrong[n]:.0f}, {self.well[n] - healed:.0f}" if n in self.well
            else (f"{self.wrong[n]:.0f}, -" if n in self.wrong else "-")
            for n in SAID
        )  # fmt: skip
        lost, sent = self.lost(), self.stage.acknowledged
        self.stage.end()
        counts = f"{sent} | {lost} | {'yes' if exact else 'NO'} | {self.restarts}"
        return f"| {self.kind} | {counts} | {said} |"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--away", type=float, default=180.0, metavar="SECONDS")
    options = parser.parse_args()
    print("| kind | acknowledged | lost | exact | restarts | gateway | service | status |")
    print("|---|--:|--:|---|--:|---|---|---|", flush=True)
    for number in range(options.rounds):
        kind = KINDS[number % len(KINDS)]
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            brokers = [stack.enter_context(NativeKafka())]
            if kind == "three":
                for _ in range(2):
                    brokers.append(stack.enter_context(NativeKafka(joins=brokers[-1])))
            relay = stack.enter_context(Relay(brokers[0].bootstrap))
            print(Round(kind, folder, brokers, relay, options.away).run(), flush=True)


if __name__ == "__main__":
    main()
