"""Simulated devices: `produce`, and a fleet with reports that differ in time."""
