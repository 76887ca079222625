"""Apache Kafka as a child process: one broker that is its own controller, or one that joins it."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.brokers.jars import Unavailable, jars, java
from tests.support.ports import free_port
from tests.support.runs import ran

# Seconds suffice on an idle machine; beside four busy test processes it may take a minute.
START_SECONDS = 180.0
STOP_SECONDS = 120.0
SUPERVISE = Path(__file__).with_name("supervise.py")
JVM = ("-Xms256m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

PROPERTIES: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.cleaner.threads": "1",
    "log.cleaner.backoff.ms": "500",
    # So that a restart after a kill does not wait for the old registration to run out.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "300",
    "group.min.session.timeout.ms": "1000",
}

PATIENT: Mapping[str, str] = {"broker.session.timeout.ms": "60000"}
"""For a broker that nobody kills or halts: it may be starved for a while and keep its registration.
Without a registration its partitions have no leader, and topics cannot be created."""

LOGGING = """\
rootLogger.level=WARN
rootLogger.appenderRef.s.ref=S
appender.s.type=Console
appender.s.name=S
appender.s.layout.type=PatternLayout
appender.s.layout.pattern=%d %p %m%n
"""


class NativeKafka:
    """One broker. Its data directory and port stay the same over restarts.

    `{port}` and `{controller}` in the value of a property stand for the ports. A broker joins the
    cluster of another one, started before, as its second.
    """

    def __init__(
        self,
        data: Path | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        jvm: tuple[str, ...] = (),
        joins: NativeKafka | None = None,
    ) -> None:
        self._own_data = data is None
        self._dir = Path(tempfile.mkdtemp(prefix="kafka-")) if data is None else data
        self._dir.mkdir(parents=True, exist_ok=True)
        self._port = free_port()
        self.node = 1 if joins is None else joins.node + 1
        self._joins = joins
        self._controller = free_port() if joins is None else joins._controller
        self._cluster = _new_cluster() if joins is None else joins._cluster
        self._properties = dict(properties or {})
        self._jvm = jvm
        self._process: subprocess.Popen[bytes] | None = None
        self._java_pid = 0
        self.bootstrap = f"127.0.0.1:{self._port}"
        self.log = self._dir / "broker.log"
        self.data = self._dir / "data"

    def start(self, timeout: float = START_SECONDS) -> NativeKafka:
        settings = self._write_settings()
        if not (self._dir / "data" / "meta.properties").exists():
            self._format(settings)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(SUPERVISE), *self._java("kafka.Kafka", settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # a Ctrl-C of the test run is not for the broker
            )
        assert self._process.stdout is not None
        self._java_pid = int(self._process.stdout.readline())
        self._await_answer(timeout)
        return self

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        self._signal(signal.SIGTERM)
        self._await_end(timeout)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Change server properties for the next start."""
        self._properties.update(properties)

    def move(self) -> None:
        """Stop the broker and start it at another port, with the same data."""
        self.stop()
        self._port = free_port()
        self.bootstrap = f"127.0.0.1:{self._port}"
        self.start()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._await_end(STOP_SECONDS)

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def freeze(self) -> None:
        """Halt the broker with its connections open, until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        if self._own_data:
            shutil.rmtree(self._dir, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write_settings(self) -> Path:
        plain = f"127.0.0.1:{self._port}"
        control = f"127.0.0.1:{self._controller}"
        properties = {
            **PROPERTIES,
            "listeners": f"PLAINTEXT://{plain},CONTROLLER://{control}",
            "advertised.listeners": f"PLAINTEXT://{plain}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": control,
            "log.dirs": str(self._dir / "data"),
            **({} if self._joins is None else self._as_second(plain)),
            **self._properties,
        }
        ports = {"{port}": str(self._port), "{controller}": str(self._controller)}
        lines = [f"{key}={_filled(value, ports)}" for key, value in properties.items()]
        settings = self._dir / "server.properties"
        settings.write_text("\n".join(lines) + "\n", encoding="utf-8")
        (self._dir / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
        return settings

    def _as_second(self, plain: str) -> dict[str, str]:
        return {
            "process.roles": "broker",
            "node.id": str(self.node),
            "listeners": f"PLAINTEXT://{plain}",
        }

    def _format(self, settings: Path) -> None:
        quorum = ["--standalone"] if self._joins is None else []
        words = ["format", *quorum, "-t", self._cluster, "-c", settings]
        tool = self._java("kafka.tools.StorageTool", *words)
        run = ran(*tool, code=None, seconds=START_SECONDS)
        if run.returncode != 0:
            raise Unavailable(f"the storage could not be formatted: {run.stdout}{run.stderr}")

    def _java(self, main: str, *args: str | Path) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self._dir / 'log4j2.properties'}"
        return [java(), *JVM, *self._jvm, logging, "-cp", f"{jars()}/*", main, *map(str, args)]

    def _await_answer(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not _answers(self._port):
            assert self._process is not None
            ended = self._process.poll()
            if ended is not None:
                self.kill()
                raise Unavailable(f"the broker ended with code {ended}: {self._log_end()}")
            if time.monotonic() > deadline:
                self.kill()
                raise Unavailable(f"no answer within {timeout:g} s: {self._log_end()}")
            time.sleep(0.1)

    def _signal(self, number: int) -> None:
        assert self._process is not None, "the broker does not run"
        if self._process.poll() is None:
            os.kill(self._java_pid, number)

    def _await_end(self, timeout: float) -> None:
        process, self._process = self._process, None
        assert process is not None
        try:
            process.wait(timeout)
        finally:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _log_end(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-3000:]


def _new_cluster() -> str:
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # An id that begins with a dash would be read as an option.
    return "k" + cluster[1:]


def _filled(value: str, ports: Mapping[str, str]) -> str:
    for name, port in ports.items():
        value = value.replace(name, port)
    return value


def _answers(port: int) -> bool:
    """Return whether the port is open; a broker opens it only when it is ready to serve."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
