"""The chart's aggregator, by its committed rendering: off by default, alone where it is on."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
import yaml

from broker.in_process import InProcessBroker
from calmstream.cli import main, parser
from calmstream.connect import SecurityConfig
from consumer.central.config import AggregatorConfig
from consumer.config import HttpConfig, variables
from estimators.central.plan import read_central_plan
from tests.deploy_support import DEPLOY, load

HELM = DEPLOY / "helm"
CHART = HELM / "calmstream"
SAMPLE = (HELM / "rendered" / "central.yaml").read_text()
OBJECTS: list[dict[str, Any]] = [each for each in yaml.safe_load_all(SAMPLE) if each]
WORKLOADS: dict[str, dict[str, Any]] = {
    each["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: each
    for each in OBJECTS
    if each["kind"] in {"StatefulSet", "Deployment", "Job"}
}
each_workload = pytest.mark.parametrize("component", ["account", "topics", "aggregator"])


def pod(component: str) -> dict[str, Any]:
    spec: dict[str, Any] = WORKLOADS[component]["spec"]["template"]["spec"]
    return spec


def container(component: str) -> dict[str, Any]:
    (found,) = pod(component)["containers"]
    return dict(found)


def mounted(component: str) -> dict[str, str]:
    return {mount["name"]: mount["mountPath"] for mount in container(component)["volumeMounts"]}


def test_it_is_off_by_default_and_replaces_the_local_roles() -> None:
    assert load(CHART / "values.yaml")["aggregator"]["enabled"] is False
    assert "aggregator" not in (HELM / "rendered" / "sample.yaml").read_text()
    assert set(WORKLOADS) == {"account", "topics", "aggregator"}
    assert WORKLOADS["aggregator"]["kind"] == "StatefulSet"
    assert WORKLOADS["aggregator"]["spec"]["replicas"] == 1


@each_workload
def test_the_command_line_takes_the_arguments(component: str) -> None:
    words = container(component)["args"]
    assert words[0] == "central"
    args = parser().parse_args(words)
    assert args.plan == f"{mounted(component)['plan']}/plan.json"
    if component != "topics":
        assert str(args.account) == f"{mounted(component)['account']}/account.json"


def test_the_account_lies_on_the_named_volume_and_is_made_once() -> None:
    for component in ("account", "aggregator"):
        (claim,) = (v for v in pod(component)["volumes"] if v["name"] == "account")
        assert claim["persistentVolumeClaim"] == {"claimName": "calmstream-account"}
    hook = WORKLOADS["account"]["metadata"]["annotations"]
    # An upgrade must never give the budget away again.
    assert hook["helm.sh/hook"] == "pre-install"
    plan = next(each for each in OBJECTS if each["kind"] == "ConfigMap")
    order = [
        int(each["metadata"]["annotations"]["helm.sh/hook-weight"])
        for each in (plan, WORKLOADS["account"], WORKLOADS["topics"])
    ]
    assert order == sorted(set(order))


def test_the_steps_work_one_after_another_as_the_chart_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = next(each for each in OBJECTS if each["kind"] == "ConfigMap")["data"]["plan.json"]
    assert read_central_plan(document.encode()).name == "central-sample"
    (tmp_path / "plan.json").write_text(document)
    broker = InProcessBroker()
    monkeypatch.setattr("calmstream.commands.central.kafka", lambda _: broker)
    monkeypatch.setattr(broker, "close", lambda: None)

    def step(component: str) -> int:
        places = [f"{mounted(component)['plan']}/"]
        places += [f"{mounted(component)[name]}/" for name in ("account",) if component != "topics"]
        words = container(component)["args"]
        for place in places:
            words = [word.replace(place, f"{tmp_path}/") for word in words]
        return main(words)

    assert step("account") == 0
    assert step("topics") == 0
    capsys.readouterr()
    assert step("account") == 1, "a second account would be a second budget"
    assert "already; it is kept" in capsys.readouterr().err


@each_workload
def test_every_variable_is_a_setting_of_the_product(component: str) -> None:
    known = variables(AggregatorConfig, HttpConfig, SecurityConfig)
    assert {each["name"] for each in container(component).get("env", ())} <= known
    assert pod(component)["enableServiceLinks"] is False, "it would add CALMSTREAM_* variables"


@each_workload
def test_pods_may_do_little_and_nothing_as_root(component: str) -> None:
    security = container(component)["securityContext"]
    assert pod(component)["securityContext"]["runAsUser"] == 10001
    assert pod(component)["securityContext"]["fsGroup"] == 10001
    assert pod(component)["automountServiceAccountToken"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_memory_has_room_for_the_raw_records_and_their_release() -> None:
    limit = container("aggregator")["resources"]["limits"]["memory"]
    assert limit.endswith("Gi")
    assert int(limit.removesuffix("Gi")) << 30 > 2 * AggregatorConfig().raw_memory_bytes


def test_prometheus_finds_it() -> None:
    (service,) = (each for each in OBJECTS if each["kind"] == "Service")
    labels = WORKLOADS["aggregator"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert container("aggregator")["ports"] == [
        {"name": "http", "containerPort": HttpConfig().http_port}
    ]
    for name in ("startup", "liveness", "readiness"):
        assert container("aggregator")[f"{name}Probe"]["httpGet"]["port"] == "http"


@pytest.mark.parametrize("claim", [{}, {"accountClaim": ""}], ids=["none", "empty"])
def test_without_a_claim_for_the_account_the_values_are_refused(claim: dict[str, str]) -> None:
    schema = orjson.loads((CHART / "values.schema.json").read_bytes())
    values = load(CHART / "values.yaml")
    values["kafka"]["bootstrap"] = "kafka:9092"
    jsonschema.validate(values, schema)
    jsonschema.validate(values | {"aggregator": {"enabled": True, "accountClaim": "a"}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values | {"aggregator": {"enabled": True, **claim}}, schema)


def test_helm_itself_makes_the_sample_where_it_is_installed() -> None:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("helm is not installed; deploy/helm/rendered is what it made")
    plan = HELM / "central-sample.plan.json"
    values = ["--values", str(HELM / "central-values.yaml"), "--set-file", f"plan.document={plan}"]
    run = [helm, "template", "telemetry", str(CHART), "--namespace", "telemetry"]
    made = subprocess.run(
        [*run, "--kube-version", "1.30.0", *values], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    assert [each for each in yaml.safe_load_all(made.stdout) if each] == OBJECTS
