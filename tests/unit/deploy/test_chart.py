"""The Helm chart, by its committed rendering: what Kubernetes would run, the product understands.

Rendering needs helm, which tests do not have; `deploy/helm/render.sh` writes the sample and the
hashes of what it was made from.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from typing import Any

import jsonschema
import orjson
import pytest
import yaml

from calmstream.cli import parser
from calmstream.connect import SecurityConfig
from consumer.config import HttpConfig, TallyConfig, variables
from consumer.health import health_app
from consumer.metrics import new_registry
from consumer.publisher_config import PublisherConfig
from estimators.plan_document import read_plan
from tests.deploy_support import DEPLOY, RULES, load

HELM = DEPLOY / "helm"
CHART = HELM / "calmstream"
OBJECTS: list[dict[str, Any]] = [
    each for each in yaml.safe_load_all((HELM / "rendered" / "sample.yaml").read_text()) if each
]
WORKLOADS = {
    each["kind"]: each["spec"]["template"]["spec"]
    for each in OBJECTS
    if each["kind"] in {"StatefulSet", "Deployment", "Job"}
}
each_workload = pytest.mark.parametrize("kind", list(WORKLOADS))


def one(kind: str) -> dict[str, Any]:
    (found,) = (each for each in OBJECTS if each["kind"] == kind)
    return found


def container(kind: str) -> dict[str, Any]:
    (found,) = WORKLOADS[kind]["containers"]
    return found


def test_the_sample_was_rendered_from_the_chart_as_it_is() -> None:
    listed = {}
    for line in (HELM / "rendered" / "inputs.sha256").read_text().splitlines():
        digest, path = line.split()
        listed[path] = digest
        content = (HELM / path).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest, f"{path}: run deploy/helm/render.sh"
    templates = {f"calmstream/templates/{path.name}" for path in CHART.glob("templates/*")}
    assert templates <= set(listed)


def test_everything_that_a_deployment_needs_is_there() -> None:
    assert {each["kind"] for each in OBJECTS} == {
        "StatefulSet",
        "Deployment",
        "Job",
        "PodDisruptionBudget",
        "Service",
        "ConfigMap",
        "NetworkPolicy",
        "ServiceMonitor",
        "PrometheusRule",
    }


@each_workload
def test_the_command_line_takes_the_arguments(kind: str) -> None:
    args = parser().parse_args(container(kind)["args"])
    mounts = {mount["name"]: mount["mountPath"] for mount in container(kind)["volumeMounts"]}
    assert args.plan == f"{mounts['plan']}/plan.json"
    assert getattr(args, "role", None) == {"StatefulSet": "tally", "Deployment": "publish"}.get(
        kind
    )


@each_workload
def test_every_variable_is_a_setting_of_the_product(kind: str) -> None:
    known = variables(TallyConfig, PublisherConfig, HttpConfig, SecurityConfig)
    names = {each["name"] for each in container(kind)["env"]}
    assert names <= known
    assert WORKLOADS[kind]["enableServiceLinks"] is False, "it would add CALMSTREAM_* variables"


@each_workload
def test_pods_may_do_little_and_nothing_as_root(kind: str) -> None:
    pod, security = WORKLOADS[kind], container(kind)["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["automountServiceAccountToken"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}


@each_workload
def test_secrets_come_by_reference(kind: str) -> None:
    values = {each["name"]: each.get("value", "") for each in container(kind)["env"]}
    mounts = [mount["mountPath"] for mount in container(kind)["volumeMounts"]]
    assert "CALMSTREAM_SASL_PASSWORD" not in values
    for name in ("CALMSTREAM_SASL_PASSWORD_FILE", "CALMSTREAM_SSL_CAFILE"):
        assert any(values[name].startswith(f"{mount}/") for mount in mounts)
    assert not any(each["kind"] == "Secret" for each in OBJECTS)


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
def test_probes_ask_pages_that_exist(kind: str) -> None:
    statuses: list[str] = []
    app = health_app(new_registry(), ())
    probes = [container(kind)[f"{name}Probe"] for name in ("startup", "liveness", "readiness")]
    paths = [probe["httpGet"]["path"] for probe in probes]
    for path in paths:
        app({"PATH_INFO": path}, lambda status, _: statuses.append(status))
    assert paths == ["/livez", "/livez", "/readyz"]
    assert statuses == ["200 OK"] * 3
    assert container(kind)["ports"] == [{"name": "http", "containerPort": HttpConfig().http_port}]


def test_workers_are_static_members_with_a_budget() -> None:
    (member,) = (e for e in container("StatefulSet")["env"] if e["name"] == "CALMSTREAM_MEMBER")
    assert member["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    budget, workers = one("PodDisruptionBudget")["spec"], one("StatefulSet")["spec"]
    assert budget["selector"] == workers["selector"]
    assert budget["maxUnavailable"] == 1
    assert WORKLOADS["StatefulSet"]["terminationGracePeriodSeconds"] > TallyConfig().stop_seconds


def test_the_plan_arrives_whole_and_before_the_topics_are_made() -> None:
    plan = read_plan(one("ConfigMap")["data"]["plan.json"].encode())
    assert plan.name == "devices"
    order = [
        int(one(kind)["metadata"]["annotations"]["helm.sh/hook-weight"])
        for kind in ("ConfigMap", "Job")
    ]
    assert order == sorted(order)


def test_prometheus_finds_the_pods_under_the_name_that_rules_use() -> None:
    monitor, service = one("ServiceMonitor")["spec"], one("Service")
    labels = service["metadata"]["labels"]
    assert labels[monitor["jobLabel"]] == "calmstream"
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    selected = one("StatefulSet")["spec"]["template"]["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= selected
    assert (CHART / "files" / "rules.yaml").read_text() == RULES.read_text()
    named = [group["name"] for group in one("PrometheusRule")["spec"]["groups"]]
    assert named == [group["name"] for group in load(RULES)["groups"]]


def test_every_dashboard_is_in_the_chart() -> None:
    boards = DEPLOY / "grafana" / "dashboards"
    packed = {path.name: path.read_text() for path in (CHART / "files").glob("*.json")}
    assert packed == {path.name: path.read_text() for path in boards.glob("*.json")}


def test_the_policy_lets_in_scrapes_alone_and_out_to_brokers_and_names() -> None:
    policy = one("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    (ingress,) = policy["ingress"]
    assert [port["port"] for port in ingress["ports"]] == [9464]
    assert ingress["from"]
    assert {port["port"] for rule in policy["egress"] for port in rule["ports"]} == {
        53,
        9092,
        9093,
    }


SCHEMA = orjson.loads((CHART / "values.schema.json").read_bytes())


def merged(**changes: object) -> dict[str, Any]:
    values = load(CHART / "values.yaml")
    values["kafka"]["bootstrap"] = "kafka:9092"
    return values | changes


def test_the_default_and_the_sample_values_fit_the_schema() -> None:
    jsonschema.validate(merged(), SCHEMA)
    sample = load(HELM / "sample-values.yaml")
    whole = merged()
    for key, value in sample.items():
        whole[key] = whole[key] | value
    jsonschema.validate(whole, SCHEMA)


@pytest.mark.parametrize(
    "changes",
    [
        {"kafka": {"bootstrap": "kafka"}},
        {"tally": {"replicas": 0}},
        {"settings": {"OTHER": "1"}},
        {"settings": {"CALMSTREAM_SASL_PASSWORD": "secret"}},
        {"typo": {}},
    ],
    ids=str,
)
def test_values_that_cannot_work_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(merged(**changes), SCHEMA)


def test_helm_itself_accepts_the_chart_where_it_is_installed() -> None:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("helm is not installed; deploy/helm/rendered is what it made")
    plan = DEPLOY / "plans" / "devices.plan.json"
    values = ["--values", str(HELM / "sample-values.yaml"), "--set-file", f"plan.document={plan}"]
    run = [helm, "template", "telemetry", str(CHART), "--namespace", "telemetry"]
    made = subprocess.run(
        [*run, "--kube-version", "1.30.0", *values], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    assert [each for each in yaml.safe_load_all(made.stdout) if each] == OBJECTS
