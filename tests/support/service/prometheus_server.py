"""The real Prometheus server on loopback, with the shipped rules and short times."""

from __future__ import annotations

import json
import math
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml

from tests.support.deploy import RULES, tool
from tests.support.ports import free_port
from tests.support.service.processes import until

RANGE = "10s"  # the range that replaces every range of the rules and panels


def quick(rules: str) -> str:
    """Return the rules with pending times of 2 s and ranges of 10 s; thresholds stay."""
    shorter = re.sub(r"\bfor: \d+m", "for: 2s", rules)
    return re.sub(r"\[\d+[mh]\]", f"[{RANGE}]", shorter)


def at_once(rules: str) -> str:
    """Return the rules without pending times; an alert fires as soon as its condition holds."""
    return re.sub(r"\n *for: \d+m", "", rules)


class PrometheusServer:
    """A server that scrapes fixed ports of this machine every second, until it is closed."""

    def __init__(
        self,
        directory: Path,
        jobs: Mapping[str, Sequence[int]],
        changed: Callable[[str], str] = quick,
    ) -> None:
        directory.mkdir()
        self.port = free_port()
        (directory / "rules.yaml").write_text(changed(RULES.read_text()))
        config = {
            "global": {
                "scrape_interval": "1s",
                "scrape_timeout": "1s",
                "evaluation_interval": "1s",
            },
            "rule_files": ["rules.yaml"],
            "scrape_configs": [
                {
                    "job_name": job,
                    "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}],
                }
                for job, ports in jobs.items()
            ],
        }
        (directory / "prometheus.yaml").write_text(yaml.safe_dump(config))
        self._log = (directory / "log").open("wb")
        self._child = subprocess.Popen(
            [
                tool("prometheus"),
                f"--config.file={directory / 'prometheus.yaml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--log.level=warn",
            ],
            stdout=self._log,
            stderr=self._log,
        )

    def __enter__(self) -> Self:
        def answers() -> bool:
            assert self._child.poll() is None, Path(self._log.name).read_text()
            try:
                self._get("/-/ready")
            except OSError:
                return False
            return True

        until("Prometheus is ready", answers, 120)
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait(60)
        self._log.close()

    def values(self, expression: str) -> list[float]:
        """Return the values of an instant query, without those that are not numbers."""
        answer = self._json("/api/v1/query", query=expression)
        numbers = [float(sample["value"][1]) for sample in answer["result"]]
        return [value for value in numbers if not math.isnan(value)]

    def firing(self) -> set[str]:
        listed = self._json("/api/v1/alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in listed if alert["state"] == "firing"}

    def _json(self, path: str, **parameters: str) -> Any:
        try:
            answer = json.loads(self._get(f"{path}?{urllib.parse.urlencode(parameters)}"))
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None
        assert answer["status"] == "success", answer
        return answer["data"]

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as page:
            content: bytes = page.read()
            return content
