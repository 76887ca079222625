"""Tracked tables: what a value is now, from the counts of all windows (docs/continuous.md)."""
