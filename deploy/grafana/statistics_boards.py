"""The panels about data quality, privacy, accuracy and the central model."""  # noqa: INP001 - a script's part

from __future__ import annotations

from panels import AGE, P, Panel, Row, highest, lowest, of_plan, rate, total

QUALITY = (
    Row(
        "Rejected records",
        (
            Panel(
                "Rejected records by reason",
                "cps",
                ((rate("rejections_total", "plan, reason"), "{{reason}}"),),
                "docs/wire-formats.md says what each reason means.",
            ),
            Panel(
                "Share of rejected records",
                "percentunit",
                ((of_plan("rejection_ratio:rate5m"), "{{plan}}"),),
                "Over five minutes. More than 1 % raises an alert.",
            ),
            Panel(
                "Rejected records without a dead letter",
                "cps",
                ((rate("dead_letters_omitted_total"), "{{plan}}"),),
                "The dead-letter topic has at most 1,000 of a reason and window.",
            ),
            Panel(
                "Foreign records",
                "cps",
                ((rate("foreign_records_total"), "{{plan}}"),),
                "Records on the state and snapshots topics that calmstream did not write.",
            ),
        ),
    ),
    Row(
        "Completeness",
        (
            Panel(
                "Reports of a window",
                "none",
                (
                    (highest("final_window_reports"), "latest final"),
                    (highest("plan_window_reports"), "planned"),
                ),
                "Reports so far, compared with the number that the plan expects.",
            ),
            Panel(
                "Reports counted",
                "cps",
                ((of_plan("reports_accepted:rate5m"), "group {{group}}"),),
                "Over five minutes, by group.",
            ),
            Panel(
                "Lag",
                "s",
                ((of_plan("lag_seconds:max"), "{{plan}}"),),
                "Lag of the slowest partition.",
            ),
        ),
    ),
    Row(
        "Signs of forged reports",
        (
            Panel(
                "Deviation from the planned share",
                "none",
                (
                    (
                        f"sum by (plan, group) (calmstream_group_share_deviation{{{P}}})",
                        "group {{group}}",
                    ),
                ),
                "In standard deviations of random assignment. Above 5 it is not chance.",
            ),
            Panel(
                "Suspicious windows",
                "none",
                ((highest("poisoning_suspected"), "latest final is suspicious"),),
                "By chance one final in 10,000 looks suspicious. Its manifest names the test.",
            ),
            Panel(
                "Changed tables",
                "none",
                (
                    (highest("changes_tables_tested", "plan, against"), "tested, {{against}}"),
                    (highest("changes_tables_changed", "plan, against"), "changed, {{against}}"),
                ),
                "Of the latest final, against the window before and all windows before.",
            ),
            Panel(
                "Smallest adjusted p-value",
                "none",
                ((lowest("changes_smallest_adjusted_p", "plan, against"), "{{against}}"),),
                "Of the tests of change of the latest final. Below 0.001 raises an alert.",
            ),
        ),
    ),
)

ACCURACY = (
    Row(
        "Privacy loss",
        (
            Panel(
                "Privacy loss of one report",
                "none",
                ((highest("plan_report_epsilon"), "{{plan}}"),),
                "Epsilon of all attributes together.",
                kind="stat",
            ),
            Panel(
                "Largest privacy loss of a device",
                "none",
                ((highest("plan_device_epsilon"), "{{plan}}"),),
                "Epsilon over the whole plan.",
                kind="stat",
            ),
            Panel(
                "Time until the plan ends",
                "s",
                ((f"{highest('plan_expiry_timestamp_seconds')} - time()", "{{plan}}"),),
                "No report is accepted after that.",
                kind="stat",
            ),
        ),
    ),
    Row(
        "Accuracy of the tables",
        (
            Panel(
                "Standard error of a cell",
                "percentunit",
                ((highest("expected_standard_error"), "{{plan}}"),),
                "Root mean square over all cells of the latest final: noise and sampling, before "
                "the correction of negative cells.",
            ),
            Panel(
                "Reports against plan",
                "percentunit",
                (
                    (
                        f"{highest('final_window_reports')} / {highest('plan_window_reports')}",
                        "{{plan}}",
                    ),
                ),
                "Reports of the latest final window. With a quarter of the reports, errors double.",
            ),
            Panel(
                "Age of the latest snapshot",
                "s",
                ((AGE, "{{plan}}"),),
                "Age of the latest set of any kind.",
            ),
        ),
    ),
    Row(
        "Time",
        (
            Panel(
                "Window and grace",
                "s",
                (
                    (highest("plan_window_seconds"), "window"),
                    (highest("plan_grace_seconds"), "grace"),
                ),
                "A final appears when both have passed.",
                kind="stat",
            ),
            Panel(
                "Time since the plan started",
                "s",
                ((f"time() - {highest('plan_start_timestamp_seconds')}", "{{plan}}"),),
                "Negative before its start.",
                kind="stat",
            ),
            Panel(
                "Records waiting",
                "none",
                ((of_plan("lag_records:sum"), "{{plan}}"),),
                "Records that no worker has counted yet.",
                kind="stat",
            ),
        ),
    ),
)

CENTRAL = (
    Row(
        "Central model: raw records reach the aggregator",
        (
            Panel(
                "Budget spent",
                "percentunit",
                ((highest("central_budget_spent_ratio"), "{{plan}}"),),
                "Part of the plan's budget. At 100 % nothing more is published.",
            ),
            Panel(
                "Releases",
                "none",
                (
                    (total("central_releases_total"), "published"),
                    (total("central_refused_total"), "refused: budget spent"),
                ),
                "Since the aggregator started.",
            ),
            Panel(
                "Skipped windows",
                "none",
                ((total("central_skipped_total"), "skipped"),),
                "Windows that another or a stopped aggregator claimed, or that are too old.",
            ),
        ),
    ),
)
