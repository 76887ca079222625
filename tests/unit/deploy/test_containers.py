"""Check the files that build and run containers, without a container engine."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.brokers import container, provide
from tests.brokers.jars import Unavailable
from tests.support.deploy import DEPLOY, ROOT, load

CONTAINERS = ROOT / "tests" / "containers"
COMPOSE: dict[str, Any] = load(DEPLOY / "compose.yaml")["services"]
LOCAL: dict[str, Any] = load(DEPLOY / "compose.local.yaml")["services"]
BUILT = re.findall(r"--tag (calmstream\S*:\S+?)[\s\"]", (CONTAINERS / "images.sh").read_text())


def test_the_bases_of_both_stages_are_the_argument() -> None:
    text = (ROOT / "Dockerfile").read_text()
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", text, re.MULTILINE)
    named = {name for _, name in stages}
    assert [base for base, _ in stages if base not in named] == ["${PYTHON_IMAGE}"] * 2
    assert [name for _, name in stages] == ["build", ""]
    assert "ARG PYTHON_IMAGE=python:3.12-slim\n" in text


def test_everything_that_the_image_installs_or_builds_with_is_locked_by_hash() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    steps = [step for line in text.splitlines() for step in line.split("&&") if "bin/pip" in step]
    assert len(steps) == 4
    for step in steps:
        assert "--require-hashes" in step or "--no-deps" in step, step
    assert "--no-build-isolation" in text, "the backend of another version would be fetched"
    lock = (ROOT / "requirements-build.lock").read_text()
    assert re.findall(r"^(\w+)==\d+", lock, re.MULTILINE) == ["setuptools"]
    assert "--hash=sha256:" in lock


def test_the_image_has_what_every_command_needs() -> None:
    text = (ROOT / "requirements.lock").read_text()
    locked = set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE))
    assert {"starlette", "kafka-python", "psycopg", "psycopg-binary", "pyarrow"} <= locked


def test_nothing_names_the_version_of_python_to_find_the_data() -> None:
    assert "site-packages" not in (DEPLOY / "compose.yaml").read_text()


def test_local_images_replace_every_image_and_none_is_pulled() -> None:
    assert set(LOCAL) == set(COMPOSE)
    for name, service in LOCAL.items():
        if "profiles" not in service:
            assert service["pull_policy"] == "never", name
            assert service["image"] in BUILT, name
    assert LOCAL["grafana"] == {"profiles": ["grafana"]}, "no image of it is built"


def test_the_broker_keeps_its_log_on_its_volume() -> None:
    mounts = [mount.split(":")[1] for mount in COMPOSE["kafka"]["volumes"]]
    assert COMPOSE["kafka"]["environment"]["KAFKA_LOG_DIRS"] in mounts


def test_no_address_of_a_registry_is_in_the_files() -> None:
    for path in [ROOT / "Dockerfile", *DEPLOY.glob("compose*"), *CONTAINERS.rglob("*")]:
        if path.is_file() and path.suffix != ".pyc":
            hosts = re.findall(r"https?://([\w.-]*\w)", path.read_text())
            assert set(hosts) <= {"deb.debian.org", "localhost", "127.0.0.1"}, path


def no_docker() -> tuple[str, Any]:
    raise Unavailable("Docker does not answer")


def test_a_named_image_is_used_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(provide.GIVEN, raising=False)
    monkeypatch.setattr(container, "start", no_docker)
    monkeypatch.setattr(provide, "NativeKafka", lambda: pytest.fail("another kind was tried"))
    monkeypatch.setenv(container.IMAGE, "calmstream-kafka:8.1.0")
    with pytest.raises(Unavailable, match="Docker does not answer"):
        provide.provide()


def test_an_image_that_is_not_there_is_not_pulled(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = pytest.importorskip("docker")

    class Images:
        def get(self, name: str) -> None:
            raise docker.errors.ImageNotFound(name)

    class Engine:
        images = Images()

        def ping(self) -> None:
            pass

    monkeypatch.setattr(docker, "from_env", lambda **_: Engine())
    monkeypatch.setenv(container.IMAGE, "nobody/made:1")
    with pytest.raises(Unavailable, match="no image nobody/made:1"):
        container.start()
