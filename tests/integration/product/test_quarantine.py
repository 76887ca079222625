"""Real processes and a real broker: faults of some plans in one process leave the others exact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from calmstream.broker.transport import Partition
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.state import partition_key
from calmstream.topics import ensure_topics
from tests.support.logs import read_reports
from tests.support.service.many_plans import REPORTS, Scene, plan_of
from tests.support.service.processes import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

COUNTED_SECONDS = 60
"""Longest time until reports of a healthy plan are counted while another one is broken."""


@pytest.fixture
def scene(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(kafka_bootstrap, tmp_path)
    yield scene
    scene.service.kill()
    scene.broker.close()


class Neighbour:
    """A healthy plan: everything sent to it is counted, once."""

    def __init__(self, scene: Scene) -> None:
        self.plan = plan_of("neighbour")
        self.sent = 0
        self._scene = scene
        scene.put(self.plan)
        until("the neighbour is served", lambda: scene.ready(self.plan), 120)

    def goes_on(self) -> None:
        """Send reports, and wait until they are counted."""
        self._scene.send(self.plan)
        self.sent += REPORTS
        until("the neighbour is counted", self.exact, COUNTED_SECONDS)

    def exact(self) -> bool:
        return self._scene.counted(self.plan) == self.sent


def quarantined(scene: Scene, plan: Plan, reason: str) -> bool:
    """Return whether the tally of a plan is in quarantine for this reason."""
    detail = scene.state("tally", plan).get("detail", "")
    return "quarantined" in detail and reason in detail


def served(scene: Scene, plan: Plan) -> None:
    """Put a plan into the folder, and wait until its first reports are counted."""
    scene.put(plan)
    until(f"{plan.name} is served", lambda: scene.ready(plan), 120)
    scene.send(plan)
    until("it is counted", lambda: scene.counted(plan) == REPORTS, 60)


def test_times_of_senders_stop_only_their_plan(scene: Scene) -> None:
    neighbour, broken = Neighbour(scene), plan_of("times")
    served(scene, broken)
    topic = plan_names(broken, scene.namespace).reports(0)
    scene.broker.topics().alter([topic], {"message.timestamp.type": "CreateTime"})
    scene.send(broken, groups=(0,))
    until("it is in quarantine", lambda: quarantined(scene, broken, "CreateTime"), 60)
    neighbour.goes_on()
    # The broker answers before the setting is in force: the last batch may have its own time.
    names = plan_names(broken, scene.namespace)
    log = read_reports(scene.broker, broken, names, COUNTED_SECONDS)
    batches = [record for record in log if record.key is not None and record.append_time]
    counted = scene.counted(broken)
    assert counted == REPORTS // 2 * len(batches), "nothing with a sender's time is counted"
    assert scene.service.page("/readyz")[0] == 200


def test_a_state_of_a_newer_version_stops_only_its_plan(scene: Scene) -> None:
    neighbour, broken = Neighbour(scene), plan_of("newer")
    names = plan_names(broken, scene.namespace)
    ensure_topics(scene.broker, broken, names)
    state = b'{"v":"99.0","plan":"%s","next_offset":1}' % broken.digest.encode()
    scene.sink.send(names.state, partition_key(0, 0), state, partition=0).wait(30)
    scene.send(broken)
    scene.put(broken)
    until("it is in quarantine", lambda: quarantined(scene, broken, "newer"), 120)
    neighbour.goes_on()
    assert scene.counted(broken) == 0


def test_a_trimmed_log_stops_only_its_plan(scene: Scene) -> None:
    neighbour, broken = Neighbour(scene), plan_of("trimmed")
    served(scene, broken)
    (scene.folder / "trimmed.json").unlink()
    until("it is given back", lambda: not scene.state("tally", broken), 60)
    for _ in range(2):
        scene.send(broken)
    topics, where = (
        scene.broker.topics(),
        Partition(plan_names(broken, scene.namespace).reports(0), 0),
    )
    topics.trim(topics.log_ends([where]))
    scene.put(broken)
    until("it is in quarantine", lambda: quarantined(scene, broken, "reports were deleted"), 120)
    neighbour.goes_on()
    assert scene.metric("calmstream_tally_quarantined", broken) == 1
    assert scene.metric("calmstream_tally_quarantined", neighbour.plan) == 0
