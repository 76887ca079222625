"""Check the chart's aggregator by its committed rendering: off by default, never two at once."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from calmstream.broker.security import SecurityConfig
from calmstream.cli import main, parse
from calmstream.common.settings import variables
from calmstream.consumer.central.config import AggregatorConfig
from calmstream.consumer.runtime.config import HttpConfig
from calmstream.estimators.central.plan import read_central_plan
from tests.support.deploy import (
    CENTRAL,
    CHART,
    LOCAL,
    assert_confined,
    chart_values,
    check_values,
    load,
)
from tests.support.faulty_broker import FaultyBroker

each_workload = pytest.mark.parametrize("component", ["account", "topics", "aggregator"])


def test_it_is_off_by_default_and_replaces_the_local_roles() -> None:
    assert load(CHART / "values.yaml")["aggregator"]["enabled"] is False
    assert "aggregator" not in LOCAL.path.read_text()
    assert set(CENTRAL.workloads) == {"account", "topics", "aggregator"}
    assert CENTRAL.workloads["aggregator"]["kind"] == "StatefulSet"
    assert CENTRAL.workloads["aggregator"]["spec"]["replicas"] == 1


@each_workload
def test_the_command_line_takes_the_arguments(component: str) -> None:
    words = CENTRAL.container(component)["args"]
    assert words[0] == "central"
    args = parse(words)
    assert args.plan == f"{CENTRAL.mounted(component)['plan']}/plan.json"
    if component != "topics":
        assert str(args.account) == f"{CENTRAL.mounted(component)['account']}/account.json"


def test_the_account_is_on_the_named_volume_and_is_made_once() -> None:
    for component in ("account", "aggregator"):
        (claim,) = (v for v in CENTRAL.pod(component)["volumes"] if v["name"] == "account")
        assert claim["persistentVolumeClaim"] == {"claimName": "calmstream-account"}
    hook = CENTRAL.workloads["account"]["metadata"]["annotations"]
    # An upgrade must never give the budget away again.
    assert hook["helm.sh/hook"] == "pre-install"
    plan = CENTRAL.one("ConfigMap")
    order = [
        int(each["metadata"]["annotations"]["helm.sh/hook-weight"])
        for each in (plan, CENTRAL.workloads["account"], CENTRAL.workloads["topics"])
    ]
    assert order == sorted(set(order))


def test_the_steps_work_one_after_another_as_the_chart_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = CENTRAL.one("ConfigMap")["data"]["plan.json"]
    assert read_central_plan(document.encode()).name == "central-sample"
    (tmp_path / "plan.json").write_text(document)
    broker = FaultyBroker()
    monkeypatch.setattr("calmstream.commands.central.kafka", lambda _: broker)
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


@each_workload
def test_every_variable_is_a_setting_of_the_product(component: str) -> None:
    settings = variables(AggregatorConfig, HttpConfig, SecurityConfig)
    assert CENTRAL.variables(component) <= settings


@each_workload
def test_pods_may_do_little_and_nothing_as_root(component: str) -> None:
    assert_confined(CENTRAL.pod(component))
    assert CENTRAL.pod(component)["securityContext"]["fsGroup"] == 10001


def test_memory_has_room_for_the_raw_records_and_their_release() -> None:
    limit = CENTRAL.container("aggregator")["resources"]["limits"]["memory"]
    assert limit.endswith("Gi")
    assert int(limit.removesuffix("Gi")) << 30 > 2 * AggregatorConfig().raw_memory_bytes


def test_prometheus_finds_it() -> None:
    service = CENTRAL.one("Service")
    labels = CENTRAL.workloads["aggregator"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert CENTRAL.container("aggregator")["ports"] == [
        {"name": "http", "containerPort": HttpConfig().http_port}
    ]
    for name in ("startup", "liveness", "readiness"):
        assert CENTRAL.container("aggregator")[f"{name}Probe"]["httpGet"]["port"] == "http"


@pytest.mark.parametrize("claim", [{}, {"accountClaim": ""}], ids=["none", "empty"])
def test_without_a_claim_for_the_account_the_values_are_refused(claim: dict[str, str]) -> None:
    check_values(chart_values(aggregator={"enabled": True, "accountClaim": "a"}))
    with pytest.raises(jsonschema.ValidationError):
        check_values(chart_values(aggregator={"enabled": True, **claim}))


def test_helm_itself_makes_the_sample_where_it_is_installed() -> None:
    assert CENTRAL.again() == CENTRAL.objects
