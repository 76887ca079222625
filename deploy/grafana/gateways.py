"""The panels of gateways, on the service dashboard."""  # noqa: INP001 - part of a script, not of a package

from __future__ import annotations

from panels import Panel, Row, rate, total

RESULTS = "plan, reason"
SINCE = "[$__rate_interval]"
COMMIT = "calmstream_gateway_commit_duration_seconds"
CUT = "calmstream_gateway_connections_cut_total"

GATEWAYS = Row(
    "Gateways",
    (
        Panel(
            "Gateways: reports accepted and refused",
            "cps",
            ((rate("gateway_reports_total", RESULTS), "{{reason}}"),),
            "Reports that devices hand in, by result.",
        ),
        Panel(
            "Gateways: requests and problems",
            "cps",
            (
                ("sum (rate(calmstream_gateway_requests_total[$__rate_interval]))", "requests"),
                (
                    "sum by (reason) (rate(calmstream_gateway_problems_total[$__rate_interval]))",
                    "{{reason}}",
                ),
            ),
            "Requests of any kind, and those answered with a problem document.",
        ),
        Panel(
            "Gateways: time to make reports durable",
            "s",
            (
                (
                    f"histogram_quantile(0.99, sum by (le) (rate({COMMIT}_bucket{SINCE})))",
                    "99 %",
                ),
            ),
            "Every acknowledgement waits for it.",
        ),
        Panel(
            "Gateways: reports and batches that wait",
            "none",
            (
                (total("gateway_reports_waiting"), "reports, {{plan}}"),
                ("sum by (instance) (calmstream_gateway_batches_waiting)", "batches, {{instance}}"),
            ),
            "Acknowledged to devices and not yet appended. Batches wait for the broker only.",
        ),
        Panel(
            "Gateways: spool",
            "bytes",
            (("max by (instance) (calmstream_gateway_spool_bytes)", "{{instance}}"),),
            "Length of the spool's files; a window's file is deleted when the window is over.",
        ),
        Panel(
            "Gateways: connections",
            "none",
            (
                ("max by (instance) (calmstream_gateway_connections)", "open, {{instance}}"),
                (
                    f"sum by (instance) (rate({CUT}{SINCE}))",
                    "cut a second, {{instance}}",
                ),
            ),
            "Connections are cut where they are slow, too large, too many or not HTTP.",
        ),
        Panel(
            "Gateways: disk, clock and files",
            "none",
            (
                ("max by (instance) (calmstream_gateway_spool_full)", "disk full, {{instance}}"),
                (
                    "max by (instance) (calmstream_gateway_clock_behind_seconds)",
                    "seconds behind, {{instance}}",
                ),
                ("max by (instance) (calmstream_gateway_plans)", "plans, {{instance}}"),
                (
                    "max by (instance) (calmstream_gateway_plan_files_refused)",
                    "plans refused, {{instance}}",
                ),
                (
                    "max by (instance) (calmstream_gateway_app_keys_refused)",
                    "keys refused, {{instance}}",
                ),
                (
                    "max by (instance) (calmstream_gateway_certificates_ending)",
                    "certificates ending, {{instance}}",
                ),
            ),
            "All but the plans are 0 in health.",
        ),
    ),
)
