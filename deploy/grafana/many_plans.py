"""The panels of processes with many plans, on the service dashboard."""  # noqa: INP001 - part of a script, not of a package

from __future__ import annotations

from panels import Panel, Row, highest, rate

OR_NONE = " or vector(0)"
"""For services of one plan, which do not export these metrics."""

MANY_PLANS = Row(
    "Folders of plans",
    (
        Panel(
            "Plans and files of the folder",
            "none",
            (
                (f"max (calmstream_plans_served){OR_NONE}", "plans served"),
                (f"max (calmstream_plan_files_refused){OR_NONE}", "files refused"),
                (f"max (calmstream_plan_folder_unreadable){OR_NONE}", "folder unreadable"),
            ),
            "A file that is refused has a log line with the reason.",
        ),
        Panel(
            "Plans in quarantine",
            "none",
            (
                (f"{highest('tally_quarantined')}{OR_NONE}", "counting, {{plan}}"),
                (f"{highest('publisher_quarantined')}{OR_NONE}", "publishing, {{plan}}"),
                (f"{highest('sink_quarantined')}{OR_NONE}", "storing, {{plan}}"),
            ),
            "1 while a fault of the plan keeps a process from serving it; /readyz has the reason.",
        ),
        Panel(
            "Faults of plans",
            "cps",
            (
                (f"{rate('tally_faults_total')}{OR_NONE}", "counting, {{plan}}"),
                (f"{rate('publisher_faults_total')}{OR_NONE}", "publishing, {{plan}}"),
                (f"{rate('sink_faults_total')}{OR_NONE}", "storing, {{plan}}"),
            ),
            "Attempts that failed. The pauses between them grow up to five minutes.",
        ),
    ),
)
