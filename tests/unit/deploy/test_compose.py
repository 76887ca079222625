"""Check the compose file: its commands parse, its files exist, and its settings have an effect."""

from __future__ import annotations

import json
import shlex
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from calmstream.cli import parse
from calmstream.common.settings import load as load_settings
from calmstream.consumer.serve.settings import ServeSettings
from calmstream.producer.gateway.settings import GatewaySettings
from tests.support.deploy import DEPLOY, ROOT, load, tool
from tests.support.runs import ran

COMPOSE = load(DEPLOY / "compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"].startswith("calmstream")]


PRODUCERS = {"producer": "plan", "work-producer": "work-plan"}
"""Which service makes the plan of which producer."""


def arguments(service: dict[str, Any]) -> list[str]:
    if "entrypoint" not in service:
        return list(service["command"])
    words = shlex.split(service["command"][0])
    return words[words.index("calmstream") + 1 :]


def parsed(name: str) -> Namespace:
    return parse(arguments(SERVICES[name]))


@pytest.mark.parametrize("name", OURS)
def test_every_command_and_option_exists(name: str) -> None:
    assert callable(parsed(name).run)


def test_everybody_uses_the_plans_that_are_made() -> None:
    made = {producer: parsed(plan).out for producer, plan in PRODUCERS.items()}
    (folder,) = {str(Path(path).parent) for path in made.values()}
    for name in set(OURS) - {*PRODUCERS, *PRODUCERS.values()}:
        args = parsed(name)
        assert args.plans == folder, name
        assert args.allow_unsigned, "nobody has signed the plans that are made"
    for producer, path in made.items():
        assert parsed(producer).plan == path
    spool = Path(parsed("gateway").spool)
    assert Path(folder).parent in spool.parents, "on the volume"
    assert Path(folder) not in spool.parents
    assert all(COMPOSE["x-calmstream"]["volumes"] == SERVICES[name]["volumes"] for name in OURS)
    waited_for = SERVICES["topics"]["depends_on"]
    assert set(PRODUCERS.values()) <= set(waited_for)


def test_results_go_where_grafana_reads_them() -> None:
    """The database and its sink start only with a profile."""
    sink, database = SERVICES["sink"], SERVICES["postgres"]["environment"]
    assert sink["profiles"] == SERVICES["postgres"]["profiles"] == ["results"]
    target = parsed("sink").to
    assert target == f"postgresql://{database['POSTGRES_USER']}@postgres/{database['POSTGRES_DB']}"
    assert sink["environment"]["PGPASSWORD"] == database["POSTGRES_PASSWORD"]
    grafana = SERVICES["grafana"]["environment"]
    (source,) = load(DEPLOY / "grafana/provisioning/datasources/results.yaml")["datasources"]
    assert grafana[source["url"][1:]] == "postgres:5432"
    assert grafana[source["user"][1:]] == database["POSTGRES_USER"]
    assert grafana[source["jsonData"]["database"][1:]] == database["POSTGRES_DB"]
    assert grafana[source["secureJsonData"]["password"][1:]] == database["POSTGRES_PASSWORD"]


@pytest.mark.parametrize("name", PRODUCERS.values())
def test_the_plan_can_be_made(name: str, tmp_path: Path) -> None:
    words = arguments(SERVICES[name])
    words[1] = str(ROOT / "calmstream" / "data" / "adult.csv.gz")
    words[words.index("--out") + 1] = str(tmp_path / "plan.json")
    args = parse(words)
    assert args.run(args) == 0
    assert (tmp_path / "plan.json").stat().st_size > 0


def test_clients_use_the_listener_that_is_advertised_to_containers() -> None:
    advertised = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    (inside,) = {parsed(name).bootstrap for name in OURS if name not in PRODUCERS.values()}
    assert f"INTERNAL://{inside}," in advertised


def test_the_broker_stamps_times_and_makes_no_topics() -> None:
    environment = SERVICES["kafka"]["environment"]
    assert environment["KAFKA_LOG_MESSAGE_TIMESTAMP_TYPE"] == "LogAppendTime"
    assert environment["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    assert "controller" in environment["KAFKA_PROCESS_ROLES"]


@pytest.mark.kafka
def test_the_broker_knows_every_setting(kafka_bootstrap: str) -> None:
    """The image turns KAFKA_NODE_ID into node.id; a broker ignores a name that it does not know."""
    given = {name.removeprefix("KAFKA_") for name in SERVICES["kafka"]["environment"]}
    admin = KafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    node = str(admin.describe_cluster()["brokers"][0]["broker_id"])
    broker = ConfigResource(ConfigResourceType.BROKER, node)
    found = admin.describe_configs([broker], config_filter="all")
    admin.close()
    assert {name.lower().replace("_", ".") for name in given} <= set(found["broker"][node])


def test_prometheus_knows_every_option() -> None:
    known = ran(tool("prometheus"), "--help", code=None)
    for option in SERVICES["prometheus"]["command"]:
        assert option.split("=")[0] in known.stdout + known.stderr, option


def test_every_variable_of_ours_is_read() -> None:
    """A command refuses a CALMSTREAM_ variable that it does not know; libpq reads PGPASSWORD."""
    given = {name for one in OURS for name in SERVICES[one].get("environment", ())}
    assert given == {"PGPASSWORD"}


def test_every_published_port_is_served() -> None:
    advertised = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    served = {
        "kafka": advertised.split("localhost:")[1].split(",")[0],
        "gateway": parsed("gateway").port or load_settings(GatewaySettings).port,
        "serve": parsed("serve").port or load_settings(ServeSettings).port,
        "prometheus": 9090,
        "grafana": 3000,
    }
    published = {name: one["ports"] for name, one in SERVICES.items() if "ports" in one}
    assert published == {name: [f"127.0.0.1:{port}:{port}"] for name, port in served.items()}
    assert all(parsed(name).host == "0.0.0.0" for name in ("gateway", "serve"))


def test_whoever_is_waited_for_can_be() -> None:
    """One that must be healthy has a check; one that must complete is not started again."""
    for service in SERVICES.values():
        waits = service.get("depends_on", {})
        for name, how in waits.items() if isinstance(waits, dict) else ():
            if how["condition"] == "service_healthy":
                assert "test" in SERVICES[name]["healthcheck"]
            else:
                assert how["condition"] == "service_completed_successfully"
                assert "restart" not in SERVICES[name]


@pytest.mark.parametrize("files", [("compose.yaml",), ("compose.yaml", "compose.local.yaml")])
def test_compose_itself_accepts_the_files(files: tuple[str, ...]) -> None:
    docker = [shutil.which("docker") or "/bin/false", "compose"]
    if ran(*docker, "version", code=None).returncode:
        pytest.skip("there is no docker compose")
    named = [word for name in files for word in ("--file", str(DEPLOY / name))]
    done = ran(*docker, *named, "--profile", "*", "config", "--format", "json")
    assert not done.stderr, "a warning"
    assert set(json.loads(done.stdout)["services"]) == set(SERVICES)


def test_the_broker_is_the_version_that_tests_use() -> None:
    pom = (ROOT / "tests" / "brokers" / "pom.xml").read_text()
    version = SERVICES["kafka"]["image"].split(":")[1]
    assert f"<kafka.version>{version}</kafka.version>" in pom


@pytest.mark.parametrize("name", OURS)
def test_containers_may_do_little(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "user" not in service, "the image's own user, which is not root"


def test_every_mounted_file_exists_and_nothing_listens_to_the_world() -> None:
    for service in SERVICES.values():
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), source
                assert mount.endswith(":ro")
            else:
                assert source in COMPOSE["volumes"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_prometheus_scrapes_the_services_that_there_are() -> None:
    config = load(DEPLOY / "prometheus" / "prometheus.yaml")
    named = {
        name
        for job in config["scrape_configs"]
        for discovery in job["dns_sd_configs"]
        for name in discovery["names"]
    }
    assert named == {"tally", "publisher", "gateway", "producer", "work-producer", "sink", "serve"}
    mounted = "\n".join(SERVICES["prometheus"]["volumes"])
    assert all(f":{path}:ro" in mounted for path in config["rule_files"])
