"""Situations of a service: each is made to happen, and every observer must say so."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from calmstream.broker.transport import Partition
from calmstream.producer.signed.envelope import signed_lineage
from tests.brokers import administration
from tests.support.service.fleet import GRACE, SECONDS, WINDOW, Expected, Fleet
from tests.support.service.processes import run, until
from tests.support.signed import Operator

Step = Callable[[Fleet], None]


@dataclass(frozen=True)
class Situation:
    """How it is made and undone, and what the observers should say.

    Attributes:
        needs: name of an attribute of the fleet without which it cannot be made.
    """

    cause: Step
    expected: Expected
    undo: Step = lambda _: None
    needs: str = ""


def some(values: object) -> bool:
    return any(value > 0 for value in values)  # type: ignore[attr-defined]


def none(values: object) -> bool:
    return not some(values)


def on_time(values: object) -> bool:
    return all(value < 3 for value in values)  # type: ignore[attr-defined]


def late(values: object) -> bool:
    return any(value >= 3 for value in values)  # type: ignore[attr-defined]


def zero(values: object) -> bool:
    return any(value == 0 for value in values)  # type: ignore[attr-defined]


def kill(name: str) -> Step:
    return lambda fleet: fleet.processes[name].kill()


def start(name: str) -> Step:
    return lambda fleet: fleet.start(name)


def freeze(fleet: Fleet) -> None:
    fleet.processes["tally"].signal(signal.SIGSTOP)


def thaw(fleet: Fleet) -> None:
    fleet.processes["tally"].kill()
    fleet.start("tally")


def second_dies(fleet: Fleet) -> None:
    fleet.start("second")
    fleet.processes["second"].ready(SECONDS)
    fleet.processes.pop("second").kill()


def trim(fleet: Fleet) -> None:
    """Lose reports that were not counted: the worker stops meanwhile."""
    fleet.serve(fleet.plan("lost"))
    fleet.processes["tally"].kill()
    fleet.send("lost", 3)
    topics, where = fleet.broker.topics(), Partition(fleet.names("lost").reports(0), 0)
    administration.trim(fleet.kafka.bootstrap, topics.log_ends([where]))
    fleet.start("tally")


def compacted(policy: str) -> Step:
    def alter(fleet: Fleet) -> None:
        names = [fleet.names(plan).state for plan in ("alpha", "beta")]
        fleet.broker.topics().alter(names, {"cleanup.policy": policy})

    return alter


def retype(fleet: Fleet) -> None:
    fleet.serve(fleet.plan("times"))
    names = fleet.names("times").all_reports
    fleet.broker.topics().alter(names, {"message.timestamp.type": "CreateTime"})


def grow(fleet: Fleet) -> None:
    fleet.serve(fleet.plan("grown"))
    administration.grow(fleet.kafka.bootstrap, fleet.names("grown").reports(0), 4)


def broker_back(fleet: Fleet) -> None:
    fleet.kafka.start()
    for name, process in fleet.processes.items():
        if not process.alive():
            fleet.start(name)


def retire(fleet: Fleet) -> None:
    fleet.serve(fleet.plan("ended", start=int(time.time()) // WINDOW * WINDOW))
    path = fleet.folder / "ended.json"
    done = run("retire", "--plan", path, *fleet.where, "--yes", seconds=300,
               settings={"CALMSTREAM_TEST_CHANGES": "false"})  # fmt: skip
    assert done.returncode == 0, done.stderr


def short(fleet: Fleet) -> None:
    fleet.put(fleet.plan("short", start=int(time.time()) // WINDOW * WINDOW, windows=2))
    until("it is over", lambda: time.time() > fleet.plans["short"].expires + GRACE, SECONDS)


def slow(fleet: Fleet) -> None:
    fleet.processes["tally"].kill()
    fleet.send("alpha", 4000)
    fleet.start("tally", CALMSTREAM_POLL_RECORDS="1")
    time.sleep(WINDOW)


def expire(fleet: Fleet) -> None:
    end = int(time.time()) + 20
    operator = Operator(not_before=0, not_after=end)
    lineage = signed_lineage(operator.root, "a")
    plan = replace(fleet.plan("signed"), lineage=lineage, lineage_name="a")
    fleet.put(plan, document=operator.sign(plan))
    until("its certificate ends", lambda: time.time() > end + 1, SECONDS)


def garbage(fleet: Fleet) -> None:
    for _ in range(20):
        fleet.sink.send(fleet.names("alpha").reports(0), b"k" * 16, b"garbage").wait(60)


def broken_file(fleet: Fleet) -> None:
    (fleet.folder / "broken.json").write_text("{")


def after(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


SITUATIONS: Mapping[str, Situation] = {
    "the only worker dies": Situation(
        kill("tally"),
        Expected(("alpha", "fault: no worker reads 2 of 2"), ("tally", "^0 "),
                 ("Partitions", 0, none), "CalmstreamPartitionsUnowned"),
        start("tally"),
    ),
    "no worker runs for three windows": Situation(
        kill("tally"),
        Expected(("alpha", "fault: no worker reads 2 of 2"), ("tally", "^0 "),
                 ("Windows behind", 0, late), "CalmstreamFinalsLate"),
        start("tally"),
    ),
    "the only worker hangs": Situation(
        freeze,
        Expected(("alpha", "fault: no worker reads 2 of 2"), ("tally", "^0 "),
                 ("Processes that respond", 0, zero), "CalmstreamPartitionsUnowned"),
        thaw,
    ),
    "one of two workers dies, the other goes on": Situation(
        second_dies,
        Expected(("alpha", "^well"), ("tally", "^200"), ("Windows behind", 0, on_time), "none"),
    ),
    "the only publisher dies": Situation(
        kill("publisher"),
        Expected(("alpha", "fault: no publisher works"), ("publisher", "^0 "),
                 ("Active publishers", 0, none), "CalmstreamPublisherAbsent"),
        start("publisher"),
    ),
    "a gateway dies": Situation(
        kill("gateway"),
        Expected(ready=("gateway", "^0 "), panel=("Processes that respond", 0, zero),
                 alert="CalmstreamTargetDown"),
        start("gateway"),
    ),
    "a gateway's disk is full": Situation(
        lambda fleet: (fleet.fill_disk(), fleet.post())[0],
        Expected(ready=("gateway", "^503.*disk of the spool"),
                 panel=("Gateways: disk, clock and files", 0, some),
                 alert="CalmstreamGatewaySpoolFull"),
        lambda fleet: (fleet.disk / "filler").unlink(),
        needs="has_disk",
    ),
    "reports of one plan are lost before they are counted": Situation(
        trim,
        Expected(("lost", "fault: .*log starts at"), ("tally", "^200.*lost.*quarantined"),
                 ("Plans in quarantine", 0, some), "CalmstreamPlanQuarantined"),
        lambda fleet: fleet.drop("lost"),
    ),
    "no state topic is compacted any more": Situation(
        compacted("delete"),
        Expected(("alpha", "fault: .*cleanup.policy=delete"), ("tally", "^503.*none of 2 plans"),
                 ("Roles that are ready", 0, zero), "CalmstreamNotReady"),
        compacted("compact"),
    ),
    "partitions are added to a topic": Situation(
        grow,
        Expected(("grown", "fault: .*has 4 partitions"), ("tally", "^200.*has 4 partitions"),
                 ("Plans in quarantine", 0, some), "CalmstreamPlanQuarantined"),
        lambda fleet: fleet.drop("grown"),
    ),
    "senders set the times in a topic": Situation(
        retype,
        Expected(("times", "fault: .*CreateTime"), ("tally", "^200.*times.*quarantined"),
                 ("Plans in quarantine", 0, some), "CalmstreamPlanQuarantined"),
        lambda fleet: fleet.drop("times"),
    ),
    "the broker is away": Situation(
        lambda fleet: fleet.kafka.kill(),
        Expected(("", "calmstream: .*(answer|broker|connect)"), ("tally", "^503.*no broker"),
                 ("Roles that are ready", 1, lambda values: max(values, default=0) > 25),
                 "CalmstreamNotReady"),
        broker_back,
    ),
    "the broker is away, seen by a gateway": Situation(
        lambda fleet: fleet.kafka.kill(),
        Expected(ready=("gateway", "^503.*no broker"), panel=("Roles that are ready", 0, zero),
                 alert="CalmstreamNotReady", role="gateway"),
        broker_back,
    ),
    "a plan is retired": Situation(
        retire,
        Expected(("ended", "^retired"), ("tally", "^200 (?!.*quarantined)"),
                 ("Plans in quarantine", 0, none), "none"),
        lambda fleet: fleet.drop("ended"),
    ),
    "a plan is over": Situation(
        short,
        Expected(("short", "^over"), ("tally", "^200"), ("Windows behind", 0, on_time), "none"),
        lambda fleet: fleet.drop("short"),
    ),
    "a plan has not begun": Situation(
        lambda fleet: fleet.put(fleet.plan("later", start=int(time.time()) + 3600)),
        Expected(
            ("later", "^not started"), ("tally", "^200"), ("Windows behind", 0, on_time), "none"
        ),
        lambda fleet: fleet.drop("later"),
    ),
    "nobody reports, as at night": Situation(
        lambda _: until("two windows are over", after(2 * WINDOW), SECONDS),
        Expected(("alpha", "^well"), ("tally", "^200"), ("Windows behind", 0, on_time), "none"),
    ),
    "counting is behind": Situation(
        slow,
        Expected(("alpha", "^late"), ("tally", "^200"),
                 ("Lag in seconds", 0, lambda values: max(values, default=0) > WINDOW),
                 "CalmstreamLag"),
        thaw,
    ),
    "clocks of senders are wrong": Situation(
        lambda fleet: fleet.send("alpha", ahead=100),
        Expected(("alpha", r"^well.*rejected [1-9]"), ("tally", "^200"),
                 ("Rejected records by reason", 0, some), "CalmstreamClockSkew"),
    ),
    "records that nobody should send": Situation(
        garbage,
        Expected(("beta", "^well"), ("tally", "^200"),
                 ("Rejected records by reason", 0, some), "CalmstreamForeignRecords"),
    ),
    "the certificate of a signing key ends": Situation(
        expire,
        Expected(("signed", "^refused: .*signing certificate"),
                 ("gateway", "^200.*signing certificate"),
                 ("Gateways: disk, clock and files", 5, some), "CalmstreamCertificateEnds"),
        lambda fleet: fleet.drop("signed"),
    ),
    "a file of the folder is no plan": Situation(
        broken_file,
        Expected(("broken.json", "^refused"), ("tally", "^200.*broken.json"),
                 ("Plans and files of the folder", 1, some), "CalmstreamPlanFilesRefused"),
        lambda fleet: (fleet.folder / "broken.json").unlink(),
    ),
    "the database of a sink is away": Situation(
        lambda fleet: (fleet.database.stop(), fleet.send("alpha"))[0],  # type: ignore[union-attr]
        Expected(ready=("sink", "target does not answer"),
                 panel=("Sinks: sets stored", 1, some), alert="CalmstreamSinkNotStoring"),
        lambda fleet: fleet.database.start(),  # type: ignore[union-attr]
        needs="database",
    ),
}  # fmt: skip
