"""Analysis of published marginals: association, tests of independence, trees, forged reports.

All functions take tables, counts or plans and return numbers; none changes what is published.
`poisoning` detects forged reports in counts (docs/methods/poisoning.md).
"""
