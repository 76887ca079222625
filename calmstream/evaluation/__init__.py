"""Measures the errors of methods on a table by simulated collection."""
