"""Measures the errors of methods on a data set by simulated collection (``calmstream evaluate``).

`population` simulates devices, `rounds` collects with and without a pilot, `evaluate` compares
estimates with the truth. docs/concepts.md explains the terms.
"""
