"""Run the real image as compose and the chart run it; `make image-test` builds it and starts this.

Without CALMSTREAM_TEST_IMAGE, which names the image, every test is skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.containers.engine import (
    CONFINED,
    IMAGE,
    KAFKA_IMAGE,
    docker,
    kafka,
    memory,
    network,
    started,
    state,
    until,
    volume,
)
from tests.support.deploy import DEPLOY, load

pytestmark = [
    pytest.mark.skipif(not IMAGE, reason="CALMSTREAM_TEST_IMAGE names no image: make image-test"),
    pytest.mark.timeout(600),
]
needs_kafka = pytest.mark.skipif(
    not KAFKA_IMAGE, reason="CALMSTREAM_TEST_KAFKA_IMAGE names no image: make image-test"
)
ALONE = ("run", "--rm", *CONFINED, "--network", "none")
DATA = "/opt/calmstream/data/adult.csv.gz"
DEVICES = 6000
GRACE = load(DEPLOY / "compose.yaml")["services"]["tally"]["stop_grace_period"].removesuffix("s")
# Checked every second, so that a verdict comes within seconds; the command is the image's own.
CHECKED_OFTEN = (
    *("--health-interval", "1s", "--health-timeout", "3s"),
    *("--health-start-period", "30s", "--health-retries", "2"),
)


def in_shell(*options: str, script: str) -> str:
    return docker(*ALONE, *options, "--entrypoint", "sh", IMAGE, "-euc", script)


def test_the_process_has_neither_root_nor_rights() -> None:
    status = in_shell(script="cat /proc/self/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split() == ["10001"] * 4
    assert {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {0}
    assert fields["NoNewPrivs"] == "1"


@pytest.mark.parametrize("path", ["/etc", "/opt/calmstream", "/var/lib/calmstream", "/"])
def test_the_root_is_read_only(path: str) -> None:
    script = f"if touch {path}/x 2>/dev/null; then echo written; else echo refused; fi"
    assert in_shell(script=script) == "refused\n"


def test_tmp_and_a_fresh_volume_take_files() -> None:
    with volume() as name:
        script = "touch /tmp/x /var/lib/calmstream/x && echo written"
        assert in_shell("--volume", f"{name}:/var/lib/calmstream", script=script) == "written\n"


def test_no_compiler_and_no_source_is_in_it() -> None:
    script = "command -v gcc cc make || true; ls /src 2>/dev/null || true"
    assert in_shell(script=script) == ""


def test_the_demo_runs_without_a_network_within_the_memory_of_a_worker() -> None:
    out = docker(*ALONE, *memory("tally"), IMAGE, "demo", "--reports", "20000", "--json")
    assert json.loads(out.splitlines()[-1])["reports"] == 20_000


@dataclass(frozen=True)
class Place:
    """A broker on a network, and a plan on a volume."""

    network: str
    volume: str
    bootstrap: str

    def options(self, role: str = "tally") -> list[str]:
        mount = f"{self.volume}:/var/lib/calmstream"
        return [*CONFINED, *memory(role), "--network", self.network, "--volume", mount]

    def words(self, command: str, *more: str) -> list[str]:
        plan = "/var/lib/calmstream/plan.json"
        return [IMAGE, command, "--plan", plan, "--bootstrap", self.bootstrap, *more]

    def run(self, command: str, *more: str, check: bool = True) -> str:
        words = self.words(command, *more)
        return docker("run", "--rm", *self.options(), *words, check=check, seconds=300)

    def service(self) -> list[str]:
        return [*CHECKED_OFTEN, *self.options("publisher"), *self.words("consume", "--role", "all")]

    def counted(self) -> int:
        found = json.loads(self.run("inspect", "--json").splitlines()[-1])
        return sum(one["reports"] for one in found["partitions"])


def sent_by(out: str) -> int:
    """Return how many reports `produce` sent; a time of its progress may stand right before."""
    found = re.search(r"(?:\d:\d\d:\d\d)?([\d,]+) reports of ", out)
    assert found, out
    return int(found[1].replace(",", ""))


@pytest.fixture
def place() -> Iterator[Place]:
    """A plan of two windows whose topics exist."""
    with network() as net, volume() as vol, kafka(net) as bootstrap:
        here = Place(net, vol, bootstrap)
        plan = (
            *("plan", DATA, "--columns", "sex,income", "--epsilon", "2", "--k", "2"),
            *("--users", "1000", "--window", "10m", "--grace", "1s", "--skew", "1s"),
            *("--lifetime", "1h", "--name", "image", "--out", "/var/lib/calmstream/plan.json"),
        )
        docker("run", "--rm", *here.options(), IMAGE, *plan)
        here.run("topics")
        yield here


def healthy(container: str) -> bool:
    return bool(state(container)["Health"]["Status"] == "healthy")


@needs_kafka
def test_health_follows_the_process(place: Place) -> None:
    with started(*place.service()) as service:
        until(lambda: healthy(service), "healthy after the start")
        docker("kill", "--signal", "STOP", service)
        until(lambda: not healthy(service), "unhealthy while it is halted")
        docker("kill", "--signal", "CONT", service)
        until(lambda: healthy(service), "healthy again")


@needs_kafka
def test_a_kill_between_and_a_drain_at_the_end_count_every_report_once(place: Place) -> None:
    produce = [*place.options(), *place.words("produce", "--records", DATA, "--rate", "1500")]
    with started(*place.service()) as service, started(*produce) as producer:
        until(lambda: healthy(service), "healthy after the start")
        until(lambda: place.counted() > DEVICES, "some reports are counted")
        docker("kill", service)
        assert state(service)["ExitCode"] == 137
        docker("start", service)
        until(lambda: not state(producer)["Running"], "the producer is done", 240)
        assert state(producer)["ExitCode"] == 0, docker("logs", producer)
        sent = sent_by(docker("logs", producer))
        until(lambda: place.counted() >= sent, "all reports are counted", 120)
        docker("stop", "--time", GRACE, service)
        ended = state(service)
        assert (ended["ExitCode"], ended["OOMKilled"]) == (0, False), docker("logs", service)
        assert place.counted() == sent


@needs_kafka
def test_sigterm_writes_what_was_counted(place: Place) -> None:
    """What was read before SIGTERM is in the state, although no checkpoint was due."""
    lazy = ["--env", "CALMSTREAM_CHECKPOINT_SECONDS=600"]
    with started(*lazy, *place.service()) as service:
        until(lambda: healthy(service), "healthy after the start")
        out = place.run("produce", "--records", DATA, "--windows", "1")
        sent = sent_by(out)
        docker("stop", "--time", GRACE, service)
        assert state(service)["ExitCode"] == 0, docker("logs", service)
        assert 0 < place.counted() <= sent
