"""The chart with a sink, by its committed rendering."""

from __future__ import annotations

import jsonschema
import pytest

from calmstream.broker.security import SecurityConfig
from calmstream.cli import parse
from calmstream.common.settings import variables
from calmstream.consumer.runtime.config import HttpConfig
from calmstream.consumer.sink.addresses import target_of
from calmstream.consumer.sink.postgres import PostgresTarget
from tests.support.deploy import LOCAL, SINK, assert_confined, chart_values, check_values, load


def test_the_sink_stands_beside_the_other_roles() -> None:
    assert set(SINK.workloads) == {*LOCAL.workloads, "sink"}
    assert "sink" not in LOCAL.workloads
    assert SINK.container("sink")["image"].startswith("registry.example.org/calmstream:")


def test_the_command_line_takes_the_arguments() -> None:
    args = parse(SINK.container("sink")["args"])
    assert args.plan == f"{SINK.mounted('sink')['plan']}/plan.json"
    target = target_of(args.to)
    assert isinstance(target, PostgresTarget)
    assert target.name == "PostgreSQL results.databases:5432/telemetry"


def test_the_password_comes_by_reference_and_settings_are_known() -> None:
    assert SINK.variables("sink") <= {*variables(HttpConfig, SecurityConfig), "PGPASSWORD"}
    (password,) = (e for e in SINK.container("sink")["env"] if e["name"] == "PGPASSWORD")
    assert password["valueFrom"] == {
        "secretKeyRef": {"name": "calmstream-results", "key": "password"}
    }


def test_the_pod_may_do_little_and_stops_in_time() -> None:
    pod = SINK.pod("sink")
    assert_confined(pod)
    assert pod["terminationGracePeriodSeconds"] >= 30


def test_the_policy_lets_it_reach_the_database() -> None:
    def ports(policy: object) -> list[int]:
        return [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]]  # type: ignore[index]

    assert 5432 in ports(SINK.one("NetworkPolicy"))
    assert 5432 not in ports(LOCAL.one("NetworkPolicy"))


def test_the_values_fit_the_schema_and_a_target_is_demanded() -> None:
    whole = chart_values()
    for key, value in load(SINK.values).items():
        whole[key] = whole[key] | value
    check_values(whole)
    for to in ("", "mysql://host/db", "postgresql://user:secret@host/db"):
        whole["sink"]["to"] = to
        with pytest.raises(jsonschema.ValidationError):
            check_values(whole)
    whole["sink"]["to"] = "parquet:/var/lib/calmstream/results"
    check_values(whole)


def test_helm_itself_accepts_the_chart_where_it_is_installed() -> None:
    assert SINK.again() == SINK.objects
