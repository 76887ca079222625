"""The panels of the HTTP interface of results, on the service dashboard."""  # noqa: INP001 - part of a script, not of a package

from __future__ import annotations

from panels import Panel, Row, highest

SINCE = "[$__rate_interval]"

SERVING = Row(
    "Results over HTTP",
    (
        Panel(
            "Results: requests and problems",
            "cps",
            (
                (f"sum (rate(calmstream_serve_requests_total{SINCE}))", "requests"),
                (
                    f"sum by (reason) (rate(calmstream_serve_problems_total{SINCE}))",
                    "{{reason}}",
                ),
            ),
            "Requests of any kind, and those answered with a problem document.",
        ),
        Panel(
            "Results: connections",
            "none",
            (("max by (instance) (calmstream_serve_connections)", "{{instance}}"),),
            "Open connections; at their limit new ones are closed.",
        ),
        Panel(
            "Results: plans that cannot be read",
            "none",
            (("max by (instance) (calmstream_serve_plans_failing)", "{{instance}}"),),
            "0 in health; the log names the plan and the reason.",
        ),
        Panel(
            "Results: final windows shown",
            "none",
            (
                (
                    highest("serve_windows_final", "plan, instance"),
                    "{{plan}}, {{instance}}",
                ),
            ),
            "Up to the newest final; as many as the publisher has published.",
        ),
    ),
)
