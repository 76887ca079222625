"""Check what a service says and counts about its folder of plans, and that it loses none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs
from structlog.typing import EventDict

from calmstream.common.clock import SystemClock
from calmstream.consumer.plans.folder import PlanFolder
from calmstream.estimators.plan import Plan
from calmstream.service import plans_in
from tests.support.producer import make_plan

ONE, TWO = make_plan(name="one"), make_plan(name="two")


class Scene:
    def __init__(self, path: Path, *plans: Plan) -> None:
        self.path = path / "plans"
        self.path.mkdir()
        self.logs: list[EventDict] = []
        for plan in plans:
            self.put(plan)
        self._registry = CollectorRegistry()
        files = plans_in(self.path, roots=(), allow_unsigned=True)
        with capture_logs() as logs:
            self.folder = PlanFolder(files, SystemClock(), self._registry)
        self.logs += logs

    def put(self, plan: Plan, file: str = "") -> None:
        (self.path / (file or f"{plan.name}.json")).write_bytes(plan.to_bytes())

    def turn(self, number: int = 3) -> None:
        with capture_logs() as logs:
            for _ in range(number):
                self.folder.turn()
        self.logs += logs

    @property
    def served(self) -> set[str]:
        return {plan.name for plan in self.folder.plans.values()}

    def metric(self, name: str) -> float:
        found = self._registry.get_sample_value(f"calmstream_{name}")
        assert found is not None
        return found

    def said(self, event: str) -> list[EventDict]:
        return [line for line in self.logs if line["event"] == event]


def test_another_plan_under_a_name_in_use_has_one_line_and_harms_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ONE, TWO)
    other = replace(ONE, purpose="something else")
    scene.put(other, "a-copy.json")
    scene.turn()
    assert ONE.digest in scene.folder.plans, "also although its file comes later by name"
    assert scene.metric("plan_files_refused") == 1
    assert scene.metric("plans_served") == 2
    (line,) = scene.said("plan refused")
    assert line["file"] == "a-copy.json"
    assert "the name 'one' is in use by another plan, in one.json" in line["reason"]


def test_a_folder_that_cannot_be_read_keeps_the_plans_and_says_so_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ONE, TWO)
    away = tmp_path / "away"
    scene.path.rename(away)
    scene.turn(4)
    assert scene.served == {"one", "two"}
    assert scene.metric("plan_folder_unreadable") == 1
    (line,) = scene.said("cannot read the plans; they stay as they were")
    assert line["error"].endswith("no such directory")
    away.rename(scene.path)
    scene.turn()
    assert scene.served == {"one", "two"}
    assert scene.metric("plan_folder_unreadable") == 0
    assert len(scene.said("the plans can be read again")) == 1
