"""Check the Helm chart by its committed rendering.

The product must understand every argument and setting that Kubernetes would run. Rendering needs
helm, which the tests do not have; `deploy/helm/render.sh` writes the rendering and the hashes of
its sources.
"""

from __future__ import annotations

import hashlib
from typing import Any

import jsonschema
import pytest

from calmstream.broker.security import SecurityConfig
from calmstream.cli import parse
from calmstream.common.http.server import ServerRequest
from calmstream.common.settings import variables
from calmstream.consumer.metrics.registry import new_registry
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.runtime.config import HttpConfig, TallyConfig
from calmstream.consumer.runtime.health import health_app
from calmstream.estimators.plan.document import read_plan
from tests.support.deploy import (
    CHART,
    DEPLOY,
    HELM,
    LOCAL,
    RULES,
    assert_confined,
    chart_values,
    check_values,
    load,
)

each_workload = pytest.mark.parametrize("component", list(LOCAL.workloads))


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
    assert {each["kind"] for each in LOCAL.objects} == {
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
def test_the_command_line_takes_the_arguments(component: str) -> None:
    args = parse(LOCAL.container(component)["args"])
    assert args.plan == f"{LOCAL.mounted(component)['plan']}/plan.json"
    roles = {"tally": "tally", "publisher": "publish", "topics": None}
    assert getattr(args, "role", None) == roles[component]


@each_workload
def test_every_variable_is_a_setting_of_the_product(component: str) -> None:
    settings = variables(TallyConfig, PublisherConfig, HttpConfig, SecurityConfig)
    assert LOCAL.variables(component) <= settings


@each_workload
def test_pods_may_do_little_and_nothing_as_root(component: str) -> None:
    assert_confined(LOCAL.pod(component))


@each_workload
def test_secrets_come_by_reference(component: str) -> None:
    values = {each["name"]: each.get("value", "") for each in LOCAL.container(component)["env"]}
    mounts = LOCAL.mounted(component).values()
    assert "CALMSTREAM_SASL_PASSWORD" not in values
    for name in ("CALMSTREAM_SASL_PASSWORD_FILE", "CALMSTREAM_SSL_CAFILE"):
        assert any(values[name].startswith(f"{mount}/") for mount in mounts)
    assert not any(each["kind"] == "Secret" for each in LOCAL.objects)


@pytest.mark.parametrize("component", ["tally", "publisher"])
def test_probes_ask_pages_that_exist(component: str) -> None:
    app = health_app(new_registry(), ())
    container = LOCAL.container(component)
    probes = [container[f"{name}Probe"] for name in ("startup", "liveness", "readiness")]
    paths = [probe["httpGet"]["path"] for probe in probes]
    assert paths == ["/livez", "/livez", "/readyz"]
    assert [app(ServerRequest("GET", path, {})).status for path in paths] == [200] * 3
    assert container["ports"] == [{"name": "http", "containerPort": HttpConfig().http_port}]


def test_workers_are_static_members_with_a_budget() -> None:
    (member,) = (e for e in LOCAL.container("tally")["env"] if e["name"] == "CALMSTREAM_MEMBER")
    assert member["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    budget, workers = LOCAL.one("PodDisruptionBudget")["spec"], LOCAL.one("StatefulSet")["spec"]
    assert budget["selector"] == workers["selector"]
    assert budget["maxUnavailable"] == 1
    assert LOCAL.pod("tally")["terminationGracePeriodSeconds"] > TallyConfig().stop_seconds


def test_the_plan_arrives_whole_and_before_the_topics_are_made() -> None:
    plan = read_plan(LOCAL.one("ConfigMap")["data"]["plan.json"].encode())
    assert plan.name == "devices"
    order = [
        int(LOCAL.one(kind)["metadata"]["annotations"]["helm.sh/hook-weight"])
        for kind in ("ConfigMap", "Job")
    ]
    assert order == sorted(order)


def test_prometheus_finds_the_pods_under_the_name_that_rules_use() -> None:
    monitor, service = LOCAL.one("ServiceMonitor")["spec"], LOCAL.one("Service")
    labels = service["metadata"]["labels"]
    assert labels[monitor["jobLabel"]] == "calmstream"
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    selected = LOCAL.one("StatefulSet")["spec"]["template"]["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= selected
    assert (CHART / "files" / "rules.yaml").read_text() == RULES.read_text()
    named = [group["name"] for group in LOCAL.one("PrometheusRule")["spec"]["groups"]]
    assert named == [group["name"] for group in load(RULES)["groups"]]


def test_every_dashboard_is_in_the_chart() -> None:
    boards = DEPLOY / "grafana" / "dashboards"
    packed = {path.name: path.read_text() for path in (CHART / "files").glob("*.json")}
    assert packed == {path.name: path.read_text() for path in boards.glob("*.json")}


def test_the_network_policy_allows_scrapes_in_and_brokers_and_names_out() -> None:
    policy = LOCAL.one("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    (ingress,) = policy["ingress"]
    assert [port["port"] for port in ingress["ports"]] == [9464]
    assert ingress["from"]
    assert {port["port"] for rule in policy["egress"] for port in rule["ports"]} == {
        53,
        9092,
        9093,
    }


def test_the_default_and_the_sample_values_fit_the_schema() -> None:
    whole = chart_values()
    check_values(whole)
    for key, value in load(LOCAL.values).items():
        whole[key] = whole[key] | value
    check_values(whole)


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
        check_values(chart_values(**changes))


def test_helm_itself_accepts_the_chart_where_it_is_installed() -> None:
    assert LOCAL.again() == LOCAL.objects
