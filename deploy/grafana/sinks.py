"""The panels of sinks, on the service dashboard."""  # noqa: INP001 - part of a script, not of a package

from __future__ import annotations

from panels import Panel, Row, highest, rate, total

SINKS = Row(
    "Sinks",
    (
        Panel(
            "Sinks: sets stored",
            "none",
            ((total("sink_sets_stored_total"), "sets"), (total("sink_waiting_sets"), "waiting")),
            "Since the start, and the sets that wait for the target.",
        ),
        Panel(
            "Sinks: failed attempts",
            "cps",
            ((rate("sink_failures_total"), "{{plan}}"),),
            "Attempts to store sets that are repeated; 0 while the target answers.",
        ),
        Panel(
            "Sinks: final windows stored",
            "none",
            (
                (
                    highest("sink_windows_final", "plan, instance"),
                    "{{plan}}, {{instance}}",
                ),
            ),
            "Up to the newest final; as many as the publisher has published.",
        ),
    ),
)
