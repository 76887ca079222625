"""Check the alert rules with promtool: each fires in its fault, and none fires otherwise.

An invented plan with windows of ten minutes runs for two hours, with one sample per minute. A fault
replaces some of the healthy series. The alerts at the end are compared with the expected ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.deploy import DEPLOY, ROOT, RULES, alerts, metrics_in, rules, sample_names, tool
from tests.support.runs import ran

MINUTES = 120
WINDOW, GRACE, WINDOWS = 600, 60, 1000
Values = Callable[[int], object]
PLAN = 'plan="p-00000000"'
A, B, C, D, E = (f'instance="{name}",job="calmstream"' for name in "abcde")


def due(minute: int) -> int:
    return max(0, (minute * 60 - GRACE) // WINDOW)


def exporter(prefix: str, *fixed: str) -> Callable[..., str]:
    """Return what names the series of one process, from a metric and its labels."""
    return lambda name, *labels: f"calmstream_{prefix}{name}{{{','.join((*fixed, *labels))}}}"


tally, publisher = exporter("", A, PLAN), exporter("", B, PLAN)
gateway, sink, server = exporter("gateway_", C), exporter("sink_", D, PLAN), exporter("serve_", E)


def place(group: int) -> str:
    return f'topic="ns.p-00000000.reports.g{group:04d}",partition="0"'


def healthy() -> dict[str, Values]:
    series: dict[str, Values] = {
        f"up{{{A}}}": lambda _: 1,
        f"up{{{B}}}": lambda _: 1,
        tally("assigned_partitions"): lambda _: 2,
        tally("checkpoints_total"): lambda m: 12 * m,
        tally("send_retries_total"): lambda _: 3,
        tally("rebalances_total"): lambda _: 2,
        tally("ticks_total"): lambda m: m / 5,
        publisher("publisher_active"): lambda _: 1,
        publisher("publisher_failures_total"): lambda _: 1,
        publisher("windows_final"): due,
        publisher("windows_waiting"): lambda _: 0,
        publisher("final_window_reports"): lambda m: 900 if due(m) else 0,
        publisher("expected_standard_error"): lambda _: 0.01,
        publisher("poisoning_suspected"): lambda _: 0,
        publisher("changes_smallest_adjusted_p", 'against="previous"'): lambda _: 0.002,
        publisher("changes_smallest_adjusted_p", 'against="before"'): lambda _: 1,
        tally("reports_failed_total", 'reason="expired"'): lambda _: 0,
        gateway("spool_full"): lambda _: 0,
        gateway("batches_waiting"): lambda m: m % 3,
        gateway("problems_total", 'reason="busy"'): lambda _: 4,
        gateway("clock_behind_seconds"): lambda _: 0,
        gateway("plan_files_refused"): lambda _: 0,
        gateway("app_keys_refused"): lambda _: 0,
        gateway("certificates_ending"): lambda _: 0,
        f'calmstream_ready{{{A},role="tally"}}': lambda _: 1,
        f"calmstream_reports_sent_total{{{C}}}": lambda m: 50 * m,
        sink("waiting_sets"): lambda m: m % 2,
        sink("windows_final"): due,
        server("windows_final", PLAN): due,
        server("plans_failing"): lambda m: m % 2,
        tally("tally_quarantined"): lambda _: 0,
        publisher("publisher_quarantined"): lambda _: 0,
        f"calmstream_plan_files_refused{{{A}}}": lambda _: 0,
        f"calmstream_plan_folder_unreadable{{{A}}}": lambda _: 0,
    }
    for of in (tally, publisher):
        series |= {
            of("process_started_timestamp_seconds"): lambda _: 17,
            of("plan_start_timestamp_seconds"): lambda _: 0,
            of("plan_expiry_timestamp_seconds"): lambda _: WINDOWS * WINDOW,
            of("plan_window_seconds"): lambda _: WINDOW,
            of("plan_grace_seconds"): lambda _: GRACE,
            of("plan_window_reports"): lambda _: 1000,
            of("plan_input_partitions"): lambda _: 2,
        }
    for group in range(2):
        series |= {
            tally("reports_accepted_total", f'group="{group}"'): lambda m: 50 * m,
            tally("records_read_total", f'group="{group}"'): lambda m: 10 * m,
            tally("consumer_lag_records", place(group)): lambda _: 4,
            tally("consumer_lag_seconds", place(group)): lambda _: 1.5,
            tally("partition_windows_closed", place(group)): due,
            publisher("group_share_deviation", f'group="{group}"'): lambda _: -3.5,
        }
    for reason in ("undecodable", "early", "late", "duplicate"):
        series[tally("rejections_total", f'reason="{reason}"')] = lambda _: 7
    return series


def absent(_: int) -> str:
    return "_"


def stuck(minute: int) -> int:
    return due(min(minute, 70))


def since(begin: int, rate: float) -> Values:
    return lambda m: max(0, m - begin) * rate


# Per alert: the series that its fault changes.
FAULTS: dict[str, dict[str, Values]] = {
    "CalmstreamAbsent": dict.fromkeys(healthy(), absent),
    "CalmstreamTargetDown": {f"up{{{A}}}": lambda _: 0},
    "CalmstreamNotReady": {f'calmstream_ready{{{A},role="tally"}}': lambda _: 0},
    "CalmstreamPartitionsUnowned": {tally("assigned_partitions"): lambda _: 1},
    "CalmstreamPublisherAbsent": {publisher("publisher_active"): lambda _: 0},
    "CalmstreamFinalsLate": {publisher("windows_final"): stuck},
    "CalmstreamPartitionBehind": {
        tally("partition_windows_closed", place(1)): stuck,
        publisher("windows_final"): stuck,
    },
    "CalmstreamLag": {tally("consumer_lag_seconds", place(0)): lambda _: 700},
    "CalmstreamCheckpointsStalled": {tally("checkpoints_total"): lambda _: 12},
    "CalmstreamBrokerTrouble": {publisher("publisher_failures_total"): since(60, 2)},
    "CalmstreamWindowsWaiting": {publisher("windows_waiting"): lambda _: 1},
    "CalmstreamRestartLoop": {tally("process_started_timestamp_seconds"): lambda m: m // 8 * 8},
    "CalmstreamRebalancing": {tally("rebalances_total"): since(60, 1)},
    "CalmstreamTicksMany": {tally("ticks_total"): since(60, 30)},
    "CalmstreamRejections": {tally("rejections_total", 'reason="late"'): since(60, 1)},
    "CalmstreamForeignRecords": {
        tally("rejections_total", 'reason="undecodable"'): lambda m: 7 + (m > 110)
    },
    "CalmstreamClockSkew": {tally("rejections_total", 'reason="early"'): lambda m: 7 + (m > 110)},
    "CalmstreamNoReports": {
        tally("reports_accepted_total", f'group="{group}"'): lambda _: 50 for group in range(2)
    },
    "CalmstreamFewReports": {publisher("final_window_reports"): lambda _: 499},
    "CalmstreamErrorHigh": {publisher("expected_standard_error"): lambda _: 0.06},
    "CalmstreamGroupShareOff": {publisher("group_share_deviation", 'group="1"'): lambda _: -5.5},
    "CalmstreamPoisoningSuspected": {publisher("poisoning_suspected"): lambda _: 1},
    "CalmstreamTablesChanged": {
        publisher("changes_smallest_adjusted_p", 'against="before"'): lambda _: 0.0009
    },
    "CalmstreamReportsGivenUp": {
        tally("reports_failed_total", 'reason="expired"'): lambda m: 5 * (m > 110)
    },
    "CalmstreamGatewaySpoolFull": {gateway("spool_full"): lambda _: 1},
    "CalmstreamGatewayNotSending": {
        gateway("batches_waiting"): lambda m: max(0, m - 100),
        f"calmstream_reports_sent_total{{{C}}}": lambda m: 50 * min(m, 100),
    },
    "CalmstreamGatewayOverloaded": {gateway("problems_total", 'reason="busy"'): since(100, 1)},
    "CalmstreamGatewayClockBehind": {gateway("clock_behind_seconds"): lambda _: 30},
    "CalmstreamGatewayFilesRefused": {gateway("app_keys_refused"): lambda _: 1},
    "CalmstreamCertificateEnds": {gateway("certificates_ending"): lambda _: 1},
    "CalmstreamSinkNotStoring": {sink("waiting_sets"): lambda _: 2},
    "CalmstreamSinkBehind": {sink("windows_final"): stuck},
    "CalmstreamServeStale": {server("windows_final", PLAN): stuck},
    "CalmstreamServeFailing": {server("plans_failing"): lambda _: 1},
    "CalmstreamPlanQuarantined": {publisher("publisher_quarantined"): lambda _: 1},
    "CalmstreamPlanFilesRefused": {f"calmstream_plan_files_refused{{{A}}}": lambda _: 1},
    "CalmstreamPlanExpires": {
        of("plan_expiry_timestamp_seconds"): lambda _: MINUTES * 60 + 300
        for of in (tally, publisher)
    },
}
ALSO = {"CalmstreamPartitionBehind": {"CalmstreamFinalsLate"}}  # what else follows from a fault


def firing(faults: dict[str, Values], tmp_path: Path, expected: set[str]) -> None:
    """Let promtool compare what fires at the end of the two hours with what is expected."""
    series = healthy() | faults
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": " ".join(str(f(m)) for m in range(MINUTES + 1))}
                    for name, f in series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": 'group by (alertname) (ALERTS{alertstate="firing"})',
                        "eval_time": f"{MINUTES}m",
                        "exp_samples": [
                            {"labels": f'{{alertname="{name}"}}', "value": 1}
                            for name in sorted(expected)
                        ],
                    }
                ],
            }
        ],
    }
    path = tmp_path / "tests.yaml"
    path.write_text(yaml.safe_dump(document))
    ran(tool("promtool"), "test", "rules", path)


def test_the_rules_are_valid() -> None:
    ran(tool("promtool"), "check", "rules", RULES)


def test_the_configuration_of_compose_is_valid() -> None:
    config = DEPLOY / "prometheus" / "prometheus.yaml"
    ran(tool("promtool"), "check", "config", "--syntax-only", config)


def test_nothing_fires_while_all_is_well(tmp_path: Path) -> None:
    firing({}, tmp_path, set())


QUICK = {
    "CalmstreamTargetDown",
    "CalmstreamPublisherAbsent",
    "CalmstreamPartitionBehind",
    "CalmstreamRejections",
    "CalmstreamGatewayNotSending",
    "CalmstreamSinkBehind",
    "CalmstreamServeStale",
}
"""Alerts whose faults `make test` plays, one or two for each role; promtool takes a second each."""


@pytest.mark.parametrize(
    "alert",
    [a if a in QUICK else pytest.param(a, marks=pytest.mark.slow) for a in FAULTS],
)
def test_an_alert_fires_in_its_fault_and_no_other_does(alert: str, tmp_path: Path) -> None:
    faults = FAULTS[alert]
    assert set(faults) <= set(healthy()), "a fault changes series that the healthy service has"
    firing(faults, tmp_path, {alert} | ALSO.get(alert, set()))


@pytest.mark.parametrize(("done", "late"), [(1, False), (0, True)])
def test_of_long_windows_one_that_is_missing_for_an_hour_is_late(
    done: int, late: bool, tmp_path: Path
) -> None:
    """Windows of fifty minutes: two are due at the end, the first one since more than an hour."""
    values = {"window": 3000, "grace": 60, "start_timestamp": 0, "expiry_timestamp": 1_000_000}
    numbers = {f"calmstream_plan_{name}_seconds": value for name, value in values.items()}
    numbers |= {"calmstream_publisher_active": 1, "calmstream_windows_final": done}
    series: dict[str, Values] = {
        f'{name}{{plan="long",{B}}}': lambda _, v=value: v  # type: ignore[misc]
        for name, value in numbers.items()
    }
    closed = f'calmstream_partition_windows_closed{{plan="long",{A},{place(0)}}}'
    series[closed] = lambda _: done
    expected = {"CalmstreamFinalsLate", "CalmstreamPartitionBehind"} if late else set()
    firing(series, tmp_path, expected)


def test_every_alert_has_a_fault() -> None:
    assert set(FAULTS) == set(alerts())


def test_rules_read_only_what_is_exported() -> None:
    for rule in rules():
        assert metrics_in(rule["expr"]) <= set(sample_names()), rule


def test_the_made_up_service_exports_what_the_real_one_does() -> None:
    assert {name.split("{")[0] for name in healthy()} <= set(sample_names()) | {"up"}


@pytest.mark.parametrize("alert", list(FAULTS))
def test_every_alert_leads_to_its_own_section_of_the_runbook(alert: str) -> None:
    rule = alerts()[alert]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"]["summary"]
    anchor = rule["annotations"]["runbook_url"].rsplit("#", 1)[1]
    assert anchor == alert.lower()
    assert f"\n## {alert}\n" in (ROOT / "deploy" / "RUNBOOK.md").read_text()
