"""Parts of the gateway without a server: application keys, plans, origins, settings, its page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import jsonschema
import pytest

from calmstream import MemoryStore
from calmstream.broker.transport import Topics
from calmstream.common.errors import InvalidInput, RecoverableError
from calmstream.common.health import RoleHealth
from calmstream.common.settings import variables
from calmstream.common.watched_folder import WatchedFolder
from calmstream.estimators.plan import Plan
from calmstream.producer.gateway.durable.entries import RowCodec, SpoolEntry
from calmstream.producer.gateway.http.app import read_reports
from calmstream.producer.gateway.http.app_keys import read_app_keys
from calmstream.producer.gateway.http.gateway import Gateway
from calmstream.producer.gateway.http.metrics import RESULTS
from calmstream.producer.gateway.http.plans import CountedPlans, Offered, plan_folder
from calmstream.producer.gateway.http.problems import GatewayProblem
from calmstream.producer.gateway.settings import GatewaySettings
from tests.support.clock import ManualClock
from tests.support.gateway.running import line
from tests.support.gateway.spool_world import counting_plan
from tests.support.producer import START, make_plan, unsigned_reporter
from tests.support.signed import Operator
from tests.support.tally import names_of

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "gateway.md").read_text()
DIGEST = "0" * 64


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "expected an object"),
        ({"v": "app-keys-2", "keys": []}, "expected an object"),
        ({"v": "app-keys-1", "keys": []}, "at least one key"),
        ({"v": "app-keys-1", "keys": [7]}, "key 0: expected the fields"),
        ({"number": 0, "sha256": DIGEST, "per_window": 1}, "number must be 1 to"),
        ({"number": True, "sha256": DIGEST, "per_window": 1}, "number must be 1 to"),
        ({"number": 1, "sha256": "A" * 64, "per_window": 1}, "lower-case hexadecimal"),
        ({"number": 1, "sha256": DIGEST, "per_window": 0}, "per_window must be"),
        ({"number": 1, "sha256": DIGEST}, "expected the fields"),
    ],
)
def test_a_file_of_keys_with_a_mistake_is_refused(
    tmp_path: Path, document: Any, message: str
) -> None:
    if isinstance(document, dict) and "v" not in document:
        document = {"v": "app-keys-1", "keys": [document]}
    (tmp_path / "keys").write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match=message):
        read_app_keys(tmp_path / "keys")


def test_two_keys_share_neither_number_nor_digest(tmp_path: Path) -> None:
    one = {"number": 1, "sha256": DIGEST, "per_window": None}
    for other in ({"number": 2}, {"sha256": "1" * 64}):
        keys = {"v": "app-keys-1", "keys": [one, one | other]}
        (tmp_path / "keys").write_text(json.dumps(keys))
        with pytest.raises(InvalidInput, match="key 1: its number or its digest"):
            read_app_keys(tmp_path / "keys")
    with pytest.raises(InvalidInput, match="No such file"):
        read_app_keys(tmp_path / "none")


def offered(directory: WatchedFolder[Offered]) -> set[str]:
    directory.refresh()
    return set(directory.documents)


def test_only_plans_of_trusted_roots_are_offered(tmp_path: Path) -> None:
    operator, stranger = Operator(), Operator(root_seed=7)
    plan = operator.plan()
    (tmp_path / "good.json").write_bytes(operator.sign(plan))
    (tmp_path / "strange.json").write_bytes(stranger.sign(stranger.plan()))
    (tmp_path / "unsigned.json").write_bytes(make_plan().to_bytes())
    (tmp_path / "broken.json").write_bytes(b"{")
    directory = plan_folder(tmp_path, [operator.root], GatewaySettings(), allow_unsigned=False)
    assert offered(directory) == {plan.digest}
    assert set(directory.refused) == {"strange.json", "unsigned.json", "broken.json"}
    assert directory.documents[plan.digest].document == operator.sign(plan)

    lenient = plan_folder(tmp_path, [operator.root], GatewaySettings(), allow_unsigned=True)
    assert offered(lenient) == {plan.digest, make_plan().digest}
    assert "strange.json" in lenient.refused, "a signature of nobody known is worse than none"


def test_a_plan_that_the_least_batch_does_not_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(make_plan().to_bytes())
    directory = plan_folder(tmp_path, [], GatewaySettings(min_batch=501), allow_unsigned=True)
    assert offered(directory) == set()
    assert "expected at most 500, half of the batch size" in directory.refused["plan.json"]


def test_every_setting_stands_on_the_page() -> None:
    named = set(re.findall(r"`CALMSTREAM_([A-Z_]+)`", PAGE))
    assert variables(GatewaySettings) <= {f"CALMSTREAM_{name}" for name in named}


def test_every_problem_has_its_status_on_the_page() -> None:
    listed = dict(re.findall(r"^\| `([a-z_]+)` \| (\d{3}) \|", PAGE, re.MULTILINE))
    assert listed == {reason.value: str(reason.kind.status) for reason in GatewayProblem}


def test_every_result_of_a_report_is_on_the_page() -> None:
    assert set(re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE)) >= set(map(str, RESULTS))


def test_the_schema_on_the_page_takes_what_devices_send() -> None:
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    for body in some_reports():
        jsonschema.validate(json.loads(body), schema)
    bad = json.loads(line(counting_plan(), 1)) | {"more": 1}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(bad, schema)


def some_reports() -> list[bytes]:
    plan = make_plan()
    found = []
    for number in range(60):
        report = unsigned_reporter(plan, MemoryStore(), clock=lambda: START * 1000).report({})
        assert report is not None
        found.append(b'{"id":"%032x","report":%s}' % (number, report.encode(plan)))
    return found


def test_every_kind_of_report_survives_the_spool() -> None:
    plan: Plan = make_plan()
    codec, groups = RowCodec(plan), set()
    lines = read_reports(plan, 9, b"\n".join(some_reports()), b"application/x-ndjson")
    for one in lines:
        assert isinstance(one.entry, SpoolEntry), one
        packed = codec.pack(one.entry.group, one.entry.row)
        assert codec.unpack(one.entry.group, b"x" + packed, 1) == (one.entry.row, 1 + len(packed))
        assert (one.entry.key, one.entry.period) == (9, 0)
        groups.add(one.entry.group)
    assert groups == {0, 1, 2}, "tables, bits and several views"


def test_a_certificate_that_ended_is_said_with_its_time() -> None:
    gateway = Mock(offered={DIGEST: Mock(until=0)}, _refusals={}, present=lambda: 1000)
    gateway.counted.refused = {}
    Gateway._say_refusals(gateway)
    assert "ended at 1970-01-01T00:00:00Z: devices refuse it" in gateway._refusals[DIGEST]


def test_health_knows_how_long_no_broker_has_answered_a_gateway() -> None:
    def away() -> Topics:
        raise RecoverableError("no broker")

    clock = ManualClock()
    health = RoleHealth("gateway", clock)
    counted = CountedPlans(SimpleNamespace(topics=away), names_of, clock)  # type: ignore[arg-type]
    health.watched(counted.silent_seconds)
    health.ready()
    counted._check({})
    clock.advance(20.0)
    assert health.silent_seconds == 20
    assert health.readiness().well
    clock.advance(10.0)
    health.turned()
    assert health.readiness().detail == "no broker has answered for 30 s"
