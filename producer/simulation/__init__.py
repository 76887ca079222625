"""Simulated devices, which report like real ones."""
