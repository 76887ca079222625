"""Fetch Apache Kafka's jars once with Maven and keep them in .cache at the repository's root.

`python -m tests.brokers.jars` does it, and prints where they are.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.runs import ran

ROOT = Path(__file__).resolve().parents[2]
POM = Path(__file__).with_name("pom.xml")
FETCH_SECONDS = 600
MIN_JAVA = 17


class Unavailable(Exception):  # noqa: N818 - it is an answer, not a defect
    """No broker is available in this way; the text gives the reason."""


def version() -> str:
    """Return CALMSTREAM_TEST_KAFKA_VERSION, or else the version that the pom requires."""
    given = os.environ.get("CALMSTREAM_TEST_KAFKA_VERSION", "")
    if given:
        return given
    match = re.search(r"<kafka\.version>([^<]+)<", POM.read_text(encoding="utf-8"))
    assert match is not None
    return match.group(1)


def java() -> str:
    path = shutil.which("java")
    if path is None:
        raise Unavailable("no java on the PATH")
    output = ran(path, "-version", code=None).stderr
    match = re.search(r'version "(\d+)', output)
    if match is None or int(match.group(1)) < MIN_JAVA:
        raise Unavailable(f"Java {MIN_JAVA} or newer is needed, found: {output.splitlines()[:1]}")
    return path


def jars() -> Path:
    target = ROOT / ".cache" / f"kafka-{version()}"
    target.parent.mkdir(exist_ok=True)
    with (target.parent / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test runs may start at once
        if not target.is_dir():
            _fetch(target)
    return target


def _fetch(target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable(f"{target} is missing and there is no mvn to fetch it")
    print(f"fetching Apache Kafka {version()} with Maven ...", file=sys.stderr, flush=True)  # noqa: T201
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        output = Path(scratch) / "jars"
        command = [maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={output}", "-DincludeScope=runtime"]
        command.append(f"-Dkafka.version={version()}")
        try:
            run = ran(*command, code=None, seconds=FETCH_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"Maven took longer than {FETCH_SECONDS} s") from error
        if run.returncode != 0 or not any(output.glob("kafka_*.jar")):
            raise Unavailable(f"Maven could not fetch the jars: {run.stdout[-500:]}")
        output.rename(target)  # only a complete set ever has this name


if __name__ == "__main__":
    print(jars())  # noqa: T201
