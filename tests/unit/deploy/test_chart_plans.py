"""The chart with a folder of plans, by its committed renderings."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import jsonschema
import pytest

from calmstream.cli import parse
from calmstream.service import plans_in
from tests.support.deploy import (
    CHART,
    LOCAL,
    PLANS,
    TRIAL_PLANS,
    assert_confined,
    chart_values,
    check_values,
    load,
)

ROLES = {"tally", "publisher", "gateway", "serve", "sink"}
each_role = pytest.mark.parametrize("component", sorted(ROLES))


def test_one_release_has_every_role_and_no_job_for_the_topics_of_one_plan() -> None:
    assert set(PLANS.workloads) == ROLES
    assert set(TRIAL_PLANS.workloads) == {"tally", "publisher"}


@each_role
def test_every_role_reads_the_same_folder_and_the_same_roots(component: str) -> None:
    args = parse(PLANS.container(component)["args"])
    folder = PLANS.mounted(component)["plans"]
    assert (args.plans, args.roots) == (folder, f"{folder}/roots")
    assert not args.allow_unsigned
    assert getattr(args, "plan", None) is None
    assert "plan" not in PLANS.mounted(component)
    (volume,) = (each for each in PLANS.pod(component)["volumes"] if each["name"] == "plans")
    assert volume["configMap"] == {"name": "signed-plans"}, "whole, so that new files appear"
    (mount,) = (m for m in PLANS.container(component)["volumeMounts"] if m["name"] == "plans")
    assert "subPath" not in mount, "a file that is mounted alone never changes"
    assert_confined(PLANS.pod(component))


@pytest.mark.parametrize("component", ["tally", "publisher"])
def test_workers_and_publishers_create_the_topics_of_plans_that_appear(component: str) -> None:
    assert parse(PLANS.container(component)["args"]).create_topics
    assert "--create-topics" not in LOCAL.container(component)["args"]


@pytest.mark.parametrize("component", ["tally", "publisher"])
def test_a_change_of_the_folder_restarts_nothing(component: str) -> None:
    annotations = TRIAL_PLANS.workloads[component]["spec"]["template"]["metadata"]["annotations"]
    assert set(annotations) == {"checksum/roots"}
    made = TRIAL_PLANS.one("ConfigMap")
    assert not made.get("immutable", False)
    assert "annotations" not in made["metadata"], "a hook would be deleted and made again"


def test_helm_puts_the_documents_into_the_folder_that_is_mounted(tmp_path: Any) -> None:
    made = TRIAL_PLANS.one("ConfigMap")
    (volume,) = (v for v in TRIAL_PLANS.pod("tally")["volumes"] if v["name"] == "plans")
    assert volume["configMap"]["name"] == made["metadata"]["name"]
    for name, text in made["data"].items():
        (tmp_path / name).write_text(text)
    folder = plans_in(tmp_path, roots=(), allow_unsigned=True, publishes=True)
    folder.refresh()
    assert {plan.name for plan in folder.documents.values()} == {"devices", "browser"}
    assert folder.refused == {}
    assert parse(TRIAL_PLANS.container("tally")["args"]).allow_unsigned


def test_the_values_fit_the_schema() -> None:
    for sample in (PLANS, TRIAL_PLANS):
        whole = chart_values()
        for key, value in load(sample.values).items():
            whole[key] = whole[key] | value
        check_values(whole)
    folder = chart_values()["plans"]
    documents = {"a.json": "{}", "Another_1.json": "{}"}
    check_values(chart_values(plans=folder | {"documents": documents, "roots": "key"}))


@pytest.mark.parametrize(
    "changes",
    [{"documents": {"a.txt": "{}"}}, {"documents": {".a.json": "{}"}},
     {"documents": {"a.json": ""}},
     {"documents": ["a"]}, {"folder": "x"}, {"claim": 1}],
    ids=str,
)  # fmt: skip
def test_values_that_cannot_work_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        check_values(chart_values(plans=chart_values()["plans"] | changes))


@pytest.mark.parametrize("sample", [PLANS, TRIAL_PLANS], ids=lambda sample: sample.name)
def test_helm_itself_accepts_the_chart_where_it_is_installed(sample: Any) -> None:
    assert sample.again() == sample.objects


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("plans.claim=c", "plans.existingConfigMap=m"), "exclude each other"),
        (("plans.claim=c", "plan.existingConfigMap=m"), "plans replaces plan"),
        (("plans.documents.a\\.json=x",), "plans.roots is needed"),
        ((), "a plan is needed"),
    ],
    ids=str,
)
def test_helm_refuses_what_does_not_fit(options: tuple[str, ...], said: str) -> None:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("helm is not installed")
    given = [word for option in (*options, "kafka.bootstrap=k:9092") for word in ("--set", option)]
    made = subprocess.run(
        [helm, "template", "x", str(CHART), "--kube-version", "1.30.0", *given],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode != 0
    assert said in made.stderr
