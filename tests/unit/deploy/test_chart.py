"""Check the Helm chart by its committed renderings, one for each way to use it.

The product must understand every argument and setting that Kubernetes would run. Rendering needs
helm, which not every machine has; `deploy/helm/render.sh` writes the renderings and the hashes of
their sources.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from calmstream.broker.security import SecurityConfig
from calmstream.cli import main, parse
from calmstream.common.health import health_app
from calmstream.common.settings import variables
from calmstream.consumer.central.config import AggregatorConfig
from calmstream.consumer.metrics.registry import new_registry
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.runtime.config import HttpConfig, TallyConfig
from calmstream.consumer.serve.settings import ServeSettings
from calmstream.consumer.sink.target import target_of
from calmstream.estimators.central.plan import read_central_plan
from calmstream.estimators.plan.document import read_plan
from calmstream.producer.gateway.settings import GatewaySettings
from calmstream.service import plans_in, require_answers
from tests.support.deploy import (
    CENTRAL,
    CHART,
    DEPLOY,
    GATEWAY,
    HELM,
    LOCAL,
    PLANS,
    RULES,
    SAMPLES,
    SERVE,
    SINK,
    TRIAL_PLANS,
    Rendering,
    assert_confined,
    load,
)
from tests.support.faulty_broker import FaultyBroker

SETTINGS = variables(TallyConfig, PublisherConfig, HttpConfig, SecurityConfig)
OWN_SETTINGS = {
    "gateway": variables(GatewaySettings, HttpConfig, SecurityConfig),
    "serve": variables(ServeSettings, HttpConfig, SecurityConfig),
    "sink": {*variables(HttpConfig, SecurityConfig), "PGPASSWORD"},
    "aggregator": variables(AggregatorConfig, HttpConfig, SecurityConfig),
}
each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
each_pod = pytest.mark.parametrize(
    ("sample", "component"),
    [
        pytest.param(sample, component, id=f"{sample.name}-{component}")
        for sample in SAMPLES
        for component in sample.workloads
    ],
)


def test_the_samples_were_rendered_from_the_chart_as_it_is() -> None:
    listed = {}
    for line in (HELM / "rendered" / "inputs.sha256").read_text().splitlines():
        digest, path = line.split()
        listed[path] = digest
        content = (HELM / path).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest, f"{path}: run deploy/helm/render.sh"
    templates = {f"calmstream/templates/{path.name}" for path in CHART.glob("templates/*")}
    assert templates <= set(listed)


def test_each_sample_has_its_roles() -> None:
    local = {"tally", "publisher", "topics"}
    assert {sample.name: set(sample.workloads) for sample in SAMPLES} == {
        "sample": local,
        "gateway": {*local, "gateway"},
        "serve": {*local, "serve"},
        "sink": {*local, "sink"},
        "central": {"account", "topics", "aggregator"},
        "plans": {"tally", "publisher", "gateway", "serve", "sink"},
        "trial-plans": {"tally", "publisher"},
    }
    assert load(CHART / "values.yaml")["aggregator"]["enabled"] is False
    assert CENTRAL.workloads["aggregator"]["spec"]["replicas"] == 1, "never two at once"


@each_sample
def test_helm_itself_makes_the_sample_where_it_is_installed(sample: Rendering) -> None:
    assert sample.again() == sample.objects


@each_pod
def test_the_command_line_takes_the_arguments_and_every_path_is_mounted(
    sample: Rendering, component: str
) -> None:
    words = sample.container(component)["args"]
    args, mounts = parse(words), sample.mounted(component)
    paths = [path for word in words if (path := word.rpartition("=")[2]).startswith("/")]
    assert paths
    for path in paths:
        assert any(f"{path}/".startswith(f"{mount}/") for mount in mounts.values()), path
    roles = {"tally": "tally", "publisher": "publish"}
    assert getattr(args, "role", None) == roles.get(component)


@each_pod
def test_every_variable_is_a_setting_of_the_role(sample: Rendering, component: str) -> None:
    assert sample.variables(component) <= OWN_SETTINGS.get(component, SETTINGS)


@each_pod
def test_pods_may_do_little_and_nothing_as_root(sample: Rendering, component: str) -> None:
    assert_confined(sample.pod(component))


@each_sample
def test_every_service_leads_to_a_port_of_its_pods(sample: Rendering) -> None:
    for service in (each for each in sample.objects if each["kind"] == "Service"):
        selector = service["spec"]["selector"].items()
        chosen = [
            component
            for component, workload in sample.workloads.items()
            if selector <= workload["spec"]["template"]["metadata"]["labels"].items()
        ]
        named = {p["name"] for c in chosen for p in sample.container(c).get("ports", ())}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= named


@pytest.mark.parametrize(
    ("sample", "role", "ports"),
    [
        (LOCAL, None, []),
        (GATEWAY, "gateway", [8080]),
        (SERVE, "serve", [8090]),
    ],
    ids=str,
)
def test_the_network_policy_allows_scrapes_and_questions_in(
    sample: Rendering, role: str | None, ports: list[int]
) -> None:
    policy = sample.one("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    found = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
    assert found == [9464, *ports]
    assert all(rule["from"] for rule in policy["ingress"][:1])
    if role:
        assert [parse(sample.container(role)["args"]).port] == ports


def test_the_network_policy_allows_brokers_names_and_the_database_out() -> None:
    def ports(sample: Rendering) -> set[int]:
        egress = sample.one("NetworkPolicy")["spec"]["egress"]
        return {port["port"] for rule in egress for port in rule["ports"]}

    assert ports(LOCAL) == {53, 9092, 9093}
    assert ports(SINK) == {53, 9092, 9093, 5432}


@pytest.mark.parametrize("component", list(LOCAL.workloads))
def test_secrets_come_by_reference(component: str) -> None:
    values = {each["name"]: each.get("value", "") for each in LOCAL.container(component)["env"]}
    mounts = LOCAL.mounted(component).values()
    assert "CALMSTREAM_SASL_PASSWORD" not in values
    for name in ("CALMSTREAM_SASL_PASSWORD_FILE", "CALMSTREAM_SSL_CAFILE"):
        assert any(values[name].startswith(f"{mount}/") for mount in mounts)
    assert not any(each["kind"] == "Secret" for each in LOCAL.objects)
    (password,) = (e for e in SINK.container("sink")["env"] if e["name"] == "PGPASSWORD")
    assert "secretKeyRef" in password["valueFrom"]
    target_of(parse(SINK.container("sink")["args"]).to)


@pytest.mark.parametrize(
    ("sample", "component"),
    [(LOCAL, "tally"), (LOCAL, "publisher"), (CENTRAL, "aggregator")],
    ids=str,
)
def test_probes_ask_pages_that_exist(sample: Rendering, component: str) -> None:
    app = health_app(new_registry(), ())
    container = sample.container(component)
    probes = [container[f"{name}Probe"] for name in ("startup", "liveness", "readiness")]
    paths = [probe["httpGet"]["path"] for probe in probes]
    assert paths == ["/livez", "/livez", "/readyz"]
    assert [app(path, "").status for path in paths] == [200] * 3
    assert container["ports"] == [{"name": "http", "containerPort": HttpConfig().http_port}]


def test_workers_have_a_budget_of_disruptions() -> None:
    budgets = [each for each in LOCAL.objects if each["kind"] == "PodDisruptionBudget"]
    (budget,) = (each["spec"] for each in budgets if each["metadata"]["name"].endswith("-tally"))
    workers = LOCAL.one("StatefulSet")["spec"]
    assert budget["selector"] == workers["selector"]
    assert budget["maxUnavailable"] == 1


def test_pods_have_the_time_to_stop() -> None:
    for sample, component, seconds in (
        (LOCAL, "tally", TallyConfig().stop_seconds),
        (GATEWAY, "gateway", GatewaySettings().stop_seconds),
    ):
        assert sample.pod(component)["terminationGracePeriodSeconds"] > seconds


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
    assert (CHART / "files" / "rules.yaml").read_text() == RULES.read_text()
    named = [group["name"] for group in LOCAL.one("PrometheusRule")["spec"]["groups"]]
    assert named == [group["name"] for group in load(RULES)["groups"]]
    boards = DEPLOY / "grafana" / "dashboards"
    packed = {path.name: path.read_text() for path in (CHART / "files").glob("*.json")}
    assert packed == {path.name: path.read_text() for path in boards.glob("*.json")}


def test_every_gateway_has_a_spool_of_its_own_that_outlives_it() -> None:
    workload = GATEWAY.workloads["gateway"]
    assert workload["kind"] == "StatefulSet"
    (claim,) = workload["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    spool = parse(GATEWAY.container("gateway")["args"]).spool
    assert spool.startswith(f"{GATEWAY.mounted('gateway')[claim['metadata']['name']]}/")
    services = [each for each in GATEWAY.objects if each["kind"] == "Service"]
    (service,) = (each for each in services if each["metadata"]["name"].endswith("-gateway"))
    assert service["spec"]["sessionAffinity"] == "ClientIP", "a client stays at one gateway"


def test_the_server_is_called_by_names_that_it_knows() -> None:
    services = [each for each in SERVE.objects if each["kind"] == "Service"]
    (service,) = (each for each in services if each["metadata"]["name"].endswith("-serve"))
    name = service["metadata"]["name"]
    assert {name, f"{name}.telemetry", f"{name}.telemetry.svc", "results.example.org"} == set(
        parse(SERVE.container("serve")["args"]).allow_host
    )


@pytest.mark.parametrize("component", sorted(PLANS.workloads))
def test_every_role_reads_the_same_folder_and_the_same_roots(component: str) -> None:
    args = parse(PLANS.container(component)["args"])
    folder = PLANS.mounted(component)["plans"]
    assert (args.plans, args.roots) == (folder, f"{folder}/roots")
    assert not args.allow_unsigned
    (volume,) = (each for each in PLANS.pod(component)["volumes"] if each["name"] == "plans")
    assert volume["configMap"] == {"name": "signed-plans"}, "whole, so that new files appear"
    (mount,) = (m for m in PLANS.container(component)["volumeMounts"] if m["name"] == "plans")
    assert "subPath" not in mount, "a file that is mounted alone never changes"


@pytest.mark.parametrize("component", ["tally", "publisher"])
def test_a_change_of_the_folder_restarts_nothing(component: str) -> None:
    assert parse(PLANS.container(component)["args"]).create_topics
    annotations = TRIAL_PLANS.workloads[component]["spec"]["template"]["metadata"]["annotations"]
    assert set(annotations) == {"checksum/roots"}
    made = TRIAL_PLANS.one("ConfigMap")
    assert not made.get("immutable", False)
    assert "annotations" not in made["metadata"], "a hook would be deleted and made again"


def test_helm_puts_the_documents_into_the_folder_that_is_mounted(tmp_path: Path) -> None:
    made = TRIAL_PLANS.one("ConfigMap")
    (volume,) = (v for v in TRIAL_PLANS.pod("tally")["volumes"] if v["name"] == "plans")
    assert volume["configMap"]["name"] == made["metadata"]["name"]
    for name, text in made["data"].items():
        (tmp_path / name).write_text(text)
    folder = plans_in(tmp_path, roots=(), allow_unsigned=True, check=require_answers)
    folder.refresh()
    assert {plan.name for plan in folder.documents.values()} == {"devices", "browser"}
    assert folder.refused == {}


def test_the_account_is_on_the_named_volume_and_is_made_once() -> None:
    for component in ("account", "aggregator"):
        (claim,) = (v for v in CENTRAL.pod(component)["volumes"] if v["name"] == "account")
        assert claim["persistentVolumeClaim"] == {"claimName": "calmstream-account"}
    hook = CENTRAL.workloads["account"]["metadata"]["annotations"]
    assert hook["helm.sh/hook"] == "pre-install", "an upgrade must never give the budget away again"
    order = [
        int(each["metadata"]["annotations"]["helm.sh/hook-weight"])
        for each in (
            CENTRAL.one("ConfigMap"),
            CENTRAL.workloads["account"],
            CENTRAL.workloads["topics"],
        )
    ]
    assert order == sorted(set(order))
    limit = CENTRAL.container("aggregator")["resources"]["limits"]["memory"]
    assert int(limit.removesuffix("Gi")) << 30 > 2 * AggregatorConfig().raw_memory_bytes


def test_the_steps_of_the_aggregator_work_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = CENTRAL.one("ConfigMap")["data"]["plan.json"]
    assert read_central_plan(document.encode()).name == "central-sample"
    (tmp_path / "plan.json").write_text(document)
    broker = FaultyBroker()
    monkeypatch.setattr("calmstream.connect.kafka", lambda _: broker)
    monkeypatch.setattr(broker, "close", lambda: None)

    def step(component: str) -> int:
        mounted = CENTRAL.mounted(component)
        places = [f"{mounted[name]}/" for name in ("plan", "account") if name in mounted]
        words = CENTRAL.container(component)["args"]
        for place in places:
            words = [word.replace(place, f"{tmp_path}/") for word in words]
        return main(words)

    assert step("account") == 0
    assert step("topics") == 0
    capsys.readouterr()
    assert step("account") == 1, "a second account would be a second budget"
    assert "already; it is kept" in capsys.readouterr().err
