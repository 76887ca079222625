"""The panels about data, privacy, accuracy and the central model."""  # noqa: INP001 - a script's part

from __future__ import annotations

from panels import AGE, P, Panel, Row, highest, of_plan, rate, total

QUALITY = (
    Row(
        "Refused",
        (
            Panel(
                "Refused records by reason",
                "cps",
                ((rate("rejections_total", "plan, reason"), "{{reason}}"),),
                "docs/wire-formats.md says what each reason means.",
            ),
            Panel(
                "Refused records of all",
                "percentunit",
                ((of_plan("rejection_ratio:rate5m"), "{{plan}}"),),
                "Over five minutes; more than 1 % makes an alert.",
            ),
            Panel(
                "Dead letters",
                "cps",
                (
                    (rate("dead_letters_total"), "{{plan}}"),
                    (rate("dead_letters_omitted_total"), "{{plan}}, counted only"),
                ),
                "Refused records kept in the dead-letter topic: 1,000 of a reason and window.",
            ),
            Panel(
                "Foreign records",
                "cps",
                ((rate("foreign_records_total"), "{{plan}}"),),
                "On the state and snapshots topics, where calmstream alone should write.",
            ),
        ),
    ),
    Row(
        "Complete",
        (
            Panel(
                "Reports of a window",
                "none",
                (
                    (highest("open_window_reports"), "running window"),
                    (highest("final_window_reports"), "latest final"),
                    (highest("plan_window_reports"), "planned"),
                ),
                "How far the window has filled, against what the plan expects.",
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
                "Of the slowest partition.",
            ),
        ),
    ),
    Row(
        "Honest",
        (
            Panel(
                "Share of each group",
                "percentunit",
                (
                    (highest("group_share_observed", "plan, group"), "{{group}} observed"),
                    (highest("group_share_planned", "plan, group"), "{{group}} planned"),
                ),
                "Of all reports through the latest final window.",
            ),
            Panel(
                "Deviation from the planned share",
                "none",
                (
                    (
                        f"sum by (plan, group) (calmstream_group_share_deviation{{{P}}})",
                        "group {{group}}",
                    ),
                ),
                "In standard deviations of honest drawing; beyond 5 chance is no explanation.",
            ),
            Panel(
                "Signs of forgery",
                "none",
                (
                    (highest("poisoning_suspected"), "latest final is suspicious"),
                    (total("poisoning_suspicious_windows_total"), "suspicious finals so far"),
                    (highest("poison_limit_exceeded"), "flood of undecodable records"),
                ),
                "By chance one final of 10,000 looks suspicious; its manifest says which test.",
            ),
        ),
    ),
)

ACCURACY = (
    Row(
        "What a device gives",
        (
            Panel(
                "Privacy loss of one report",
                "none",
                ((highest("plan_report_epsilon"), "{{plan}}"),),
                "Epsilon, all attributes together.",
                kind="stat",
            ),
            Panel(
                "Most that a device can spend",
                "none",
                ((highest("plan_device_epsilon"), "{{plan}}"),),
                "Epsilon, over the whole plan.",
                kind="stat",
            ),
            Panel(
                "Until the plan ends",
                "s",
                ((f"{highest('plan_expiry_timestamp_seconds')} - time()", "{{plan}}"),),
                "After that no report is accepted.",
                kind="stat",
            ),
        ),
    ),
    Row(
        "What the tables are worth",
        (
            Panel(
                "Standard error of a cell",
                "percentunit",
                ((highest("expected_standard_error"), "{{plan}}"),),
                "Root mean square over all cells of the latest final: noise and sampling, before "
                "negative cells are corrected.",
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
                "Of the latest final window. Errors grow with the root of what is missing.",
            ),
            Panel(
                "Age of the latest snapshot",
                "s",
                ((AGE, "{{plan}}"),),
                "Of any kind.",
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
                "The plan has run for",
                "s",
                ((f"time() - {highest('plan_start_timestamp_seconds')}", "{{plan}}"),),
                "Negative before its start.",
                kind="stat",
            ),
            Panel(
                "Records waiting",
                "none",
                ((of_plan("lag_records:sum"), "{{plan}}"),),
                "Not counted yet, hence in no table yet.",
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
                "Part of the plan's rho; at 100 % nothing more is published.",
            ),
            Panel(
                "Releases",
                "none",
                (
                    (total("central_releases_total"), "left"),
                    (total("central_refused_total"), "refused: the budget is spent"),
                ),
                "Since the aggregator started.",
            ),
            Panel(
                "Windows left out",
                "none",
                ((total("central_skipped_total"), "left out"),),
                "Claimed by another aggregator or by one that died, or too old.",
            ),
        ),
    ),
)
