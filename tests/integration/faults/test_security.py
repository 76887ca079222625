"""Check TLS, passwords and permissions on a real broker: each role can do its job, nothing else."""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from calmstream.broker.kafka import connect
from calmstream.broker.kafka.broker import KafkaBroker
from calmstream.broker.names import TopicNames
from calmstream.broker.permissions import permissions
from calmstream.broker.topic_facts import ensure_topics
from calmstream.broker.transport import Partition, TopicSpec
from calmstream.common.errors import CalmstreamError, FatalError
from calmstream.estimators.plan import Plan
from tests.brokers.provide import or_skip
from tests.brokers.secured import SecuredKafka
from tests.support.gateway.running import line
from tests.support.plans import pair_plan
from tests.support.ports import free_port
from tests.support.service.processes import Process, post_report, run, until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

ROLES = ["edge", "tally", "publisher", "subscriber", "analyst", "observer"]
DEADLINE = 120.0
LACKING = (
    ("observer", "topic", "READ", "status"),
    ("observer", "topic", "DESCRIBE_CONFIGS", "status"),
    ("observer", "group", "DESCRIBE", "status"),
    ("observer", "topic", "READ", "dead-letters"),
    ("operator", "topic", "CREATE", "topics"),
    ("operator", "topic", "ALTER_CONFIGS", "retire"),
    ("operator", "topic", "DELETE", "retire"),
    ("operator", "group", "READ", "retire"),
    ("edge", "topic", "WRITE", "produce"),
    ("tally", "topic", "READ", "consume --role tally"),
    ("tally", "group", "READ", "consume --role tally"),
    ("publisher", "group", "READ", "consume --role publish"),
)
"""Role, and the right without which a command of it must say which one is missing."""


class Stage:
    """A secured broker with a plan's topics, and a user for every role, with the role's name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        lacking = [f"lacks{number}" for number in range(len(LACKING))]
        self.secured = SecuredKafka(directory, [*ROLES, *lacking, "operator", "clerk", "nobody"])
        self.secured.kafka.start()
        self.bootstrap = self.secured.kafka.bootstrap
        self.plan = pair_plan(
            f"sec-{secrets.token_hex(3)}", int(time.time()) - 5, 3600, 1, grace=60, skew=60
        )
        self.names = TopicNames.of(self.plan, "sec")
        self.folder = directory / "plans"
        self.folder.mkdir()
        self.where = self.placed(self.plan, self.folder)
        rows = "\n".join(f"{i & 1},{i >> 1 & 1},{i >> 2 & 1},0" for i in range(600))
        self.records = directory / "records.csv"
        self.records.write_text(f"{','.join(self.plan.domain.names)}\n{rows}\n")
        self.clients: dict[str, KafkaBroker] = {}
        admin = self.client("admin")
        ensure_topics(admin, self.plan, self.names)
        for role in ROLES:
            admin.grant(f"User:{role}", permissions(role, self.names))
        sink = admin.sink()
        for topic in (self.names.snapshots, self.names.dead_letters):
            sink.send(topic, b"foreign", b"so that something can be read").wait(DEADLINE)
        # One that is retired.
        start = int(time.time()) // 10 * 10
        self.spare = pair_plan(f"spare-{secrets.token_hex(3)}", start, 10, 400, grace=1, skew=1)
        self.of_spare = self.placed(self.spare, directory)

    def placed(self, plan: Plan, folder: Path) -> list[object]:
        path = folder / f"{plan.name}.json"
        path.write_bytes(plan.to_bytes())
        return ["--plan", path, "--bootstrap", self.bootstrap, "--namespace", "sec"]

    def client(self, user: str) -> KafkaBroker:
        if user not in self.clients:
            self.clients[user] = connect(self.bootstrap, self.secured.security(user))
        return self.clients[user]

    def command(self, user: str, *words: object) -> tuple[int, str, str]:
        done = run(*words, settings=self.secured.settings(user), seconds=DEADLINE)
        return done.returncode, done.stdout, done.stderr

    def close(self) -> None:
        for client in self.clients.values():
            client.close()
        self.secured.kafka.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with or_skip():
        made = Stage(tmp_path_factory.mktemp("secured"))
    yield made
    made.close()


@pytest.mark.slow
def test_every_role_does_its_job_and_no_secret_is_shown(stage: Stage, tmp_path: Path) -> None:
    settings = stage.secured.settings
    fast = {"CALMSTREAM_CHECKPOINT_SECONDS": "0.5", "CALMSTREAM_REFRESH_SECONDS": "0.5"}
    plans, port = ("--plans", stage.folder, "--allow-unsigned", *stage.where[2:]), free_port()
    both = [
        Process(tmp_path / f"{user}.log", *words, "--log-level", "debug",
                settings=settings(user) | fast)
        for user, words in (
            ("tally", ("consume", *plans, "--role", "tally")),
            ("publisher", ("consume", *stage.where, "--role", "publish")),
            ("edge", ("gateway", *plans, "--spool", tmp_path / "spool", "--min-batch", 1,
                      "--port", port)),
            ("analyst", ("serve", *plans, "--port", free_port())),
        )
    ]  # fmt: skip
    try:
        sent = stage.command("edge", "produce", *stage.where, "--records", stage.records)
        assert sent[0] == 0, sent
        both[2].ready(DEADLINE)
        both[3].ready(DEADLINE)
        assert post_report(port, stage.plan.digest, line(stage.plan, 0))[0] == 202
        until(
            "all counted",
            lambda: both[0].metric("calmstream_reports_accepted_total") == 601,
            DEADLINE,
        )
        until(
            "published",
            lambda: both[1].metric("calmstream_early_snapshots_published_total") > 0,
            DEADLINE,
        )
        watched: list[str] = []

        def all_shown() -> bool:
            """Return whether the newest tables hold all reports; earlier ones may hold a part."""
            code, *output = stage.command("subscriber", "watch", *stage.where, "--once")
            watched.extend(output)
            assert code == 0, output
            return "601 reports" in output[0]

        until("all are shown", all_shown, DEADLINE)
        to = ["--to", f"parquet:{tmp_path / 'results'}", "--once"]
        kept = stage.command("subscriber", "sink", *stage.where, *to)
        assert kept[0] == 0, kept
        for name in ("status", "inspect", "dead-letters"):
            shown = stage.command("observer", name, *stage.where)
            assert shown[0] == 0, shown
            watched.extend(shown[1:])
        assert list((tmp_path / "results").rglob("early-*.parquet"))
        for process in both:
            process.signal(signal.SIGTERM)
            assert process.wait(40) == 0, process.tail()
    finally:
        for process in both:
            process.kill()
    output = "".join([*sent[1:], *watched, *kept[1:], *(p.log.read_text() for p in both)])
    assert not [user for user, secret in stage.secured.passwords.items() if secret in output]


@pytest.mark.slow
def test_the_table_is_applied_by_the_command(stage: Stage) -> None:
    """Check that a person reads nothing until the command has granted the role of readers."""
    words = ["export", *stage.where]
    code, _, stderr = stage.command("clerk", *words)
    assert code == 1
    # A broker hides from a principal the topics that it may not see.
    assert "not authorised" in stderr or "does not exist" in stderr
    granted = stage.command(
        "admin", "acl", *stage.where, "--role", "subscriber", "--principal", "User:clerk", "--apply"
    )
    assert granted[0] == 0, granted
    assert "may act as subscriber" in granted[1]
    await_rules(stage, "clerk", *words)
    refused(lambda: send(stage, "clerk", stage.names.snapshots))


def await_rules(stage: Stage, user: str, *words: object) -> None:
    until("the rules are in force", lambda: stage.command(user, *words)[0] == 0, DEADLINE)


def send(stage: Stage, user: str, topic: str) -> None:
    sink = stage.client(user).sink()
    try:
        sink.send(topic, b"key", b"{}", partition=0).wait(DEADLINE)
    finally:
        sink.close(1.0)


def read(stage: Stage, user: str, topic: str) -> None:
    """Fetch the first records of a partition; the first answer shows a missing authorisation."""
    reader = stage.client(user).reader()
    where = Partition(topic, 0)
    try:
        reader.assign([where])
        reader.seek(where, 0)
        deadline = time.monotonic() + DEADLINE
        while not reader.poll(0.5) and time.monotonic() < deadline:
            pass
    finally:
        reader.close()


def join(stage: Stage, user: str, group: str, topic: str) -> None:
    member = stage.client(user).group_reader(group)
    try:
        member.subscribe([topic])
        deadline = time.monotonic() + DEADLINE
        while not member.assignment() and time.monotonic() < deadline:
            member.poll(0.2)
        assert member.assignment(), "neither refused nor admitted"
    finally:
        member.close(1.0)


def delete(stage: Stage, user: str, topic: str) -> None:
    stage.client(user).topics().delete([topic])


def refused(action: Callable[[], None]) -> None:
    with pytest.raises(FatalError, match=r"not authorised|does not exist"):
        action()


def topics_of(names: TopicNames) -> dict[str, str]:
    return {
        "reports": names.reports(0),
        "state": names.state,
        "letters": names.dead_letters,
        "snapshots": names.snapshots,
    }


EVERYTHING = "reports state letters snapshots"
FORBIDDEN = {
    "edge": ("state letters snapshots", EVERYTHING),
    "tally": ("snapshots", "letters snapshots"),
    "publisher": ("reports letters", "reports letters"),
    "subscriber": (EVERYTHING, "reports state letters"),
    "nobody": (EVERYTHING, EVERYTHING),
}
"""Topics that each user may neither write nor read."""


@pytest.mark.parametrize(
    "user",
    [
        "edge",
        "tally",
        *(pytest.param(u, marks=pytest.mark.slow) for u in ("publisher", "subscriber", "nobody")),
    ],
)
def test_a_forbidden_action_is_refused_by_the_broker(stage: Stage, user: str) -> None:
    topics = topics_of(stage.names)
    writes, reads = FORBIDDEN[user]
    for name in writes.split():
        refused(lambda name=name: send(stage, user, topics[name]))
    for name in reads.split():
        refused(lambda name=name: read(stage, user, topics[name]))
    for topic in topics.values():
        refused(lambda topic=topic: delete(stage, user, topic))
    refused(
        lambda: stage.client(user).topics().create([TopicSpec(f"sec.other-{user}", 1)]) and None
    )


@pytest.mark.slow
def test_a_group_admits_only_its_own_role(stage: Stage) -> None:
    group, topic = f"{stage.names.prefix}.publisher", stage.names.state
    join(stage, "publisher", group, topic)
    refused(lambda: join(stage, "tally", group, topic))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(LACKING)))
def test_a_command_names_the_right_that_is_missing(stage: Stage, number: int) -> None:
    role, kind, operation, command = LACKING[number]
    name, *more = command.split()
    about, plan = (stage.of_spare, stage.spare) if role == "operator" else (stage.where, stage.plan)
    names = TopicNames.of(plan, "sec")
    if name == "retire":
        ensure_topics(stage.client("admin"), plan, names)
        more = ["--yes"] if kind == "group" else ["--yes", "--without-finals"]
    # Where DESCRIBE is left, the command gets as far as the right that it lacks.
    granted = [
        replace(rule, operation="DESCRIBE")
        if (rule.kind, rule.operation) == (kind, operation)
        else rule
        for rule in permissions(role, names)
        if (rule.kind, rule.operation, operation) != (kind, "DESCRIBE", "DESCRIBE")
    ]
    stage.client("admin").grant(f"User:lacks{number}", granted)
    records = ("--records", stage.records) if name == "produce" else ()

    deadline, output = time.monotonic() + DEADLINE, [""]
    while f"lacks {operation} " not in " ".join("".join(output).split()):  # until it is in force
        assert time.monotonic() < deadline, output
        code, *output = stage.command(f"lacks{number}", name, *about, *more, *records)
        assert code == 1 or operation == "DESCRIBE", output


@pytest.mark.slow
def test_an_operator_retires_a_plan(stage: Stage) -> None:
    names = TopicNames.of(stage.spare, "sec")
    stage.client("admin").grant("User:operator", permissions("operator", names))
    await_rules(stage, "operator", "topics", *stage.of_spare)
    done = stage.command("operator", "retire", *stage.of_spare, "--yes")
    assert done[0] == 0, done
    assert "topics deleted" in done[2]


@pytest.mark.slow
def test_an_operator_runs_this_plan_and_no_other(stage: Stage) -> None:
    stage.client("admin").grant("User:operator", permissions("operator", stage.names))
    await_rules(stage, "operator", "topics", *stage.where)
    output = stage.command("operator", "inspect", *stage.where, "--json")
    assert output[0] == 0, output
    topics = stage.client("operator").topics()
    topics.alter([stage.names.dead_letters], {"retention.ms": "86400000"})
    refused(lambda: topics.create([TopicSpec("sec.another-plan.state", 1)]) and None)
    refused(
        lambda: stage.client("operator").grant("User:operator", permissions("edge", stage.names))
    )


def test_a_wrong_password_is_one_line_without_it(stage: Stage) -> None:
    with pytest.raises(CalmstreamError) as error:
        connect(
            stage.bootstrap, stage.secured.security("edge", "letmein-please"), connect_seconds=5
        )
    assert "letmein-please" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_certificate_of_an_unknown_authority_is_refused(stage: Stage) -> None:
    untrusting = replace(stage.secured.security("admin"), ssl_cafile=None)
    with pytest.raises(CalmstreamError):
        connect(stage.bootstrap, untrusting, connect_seconds=4)
