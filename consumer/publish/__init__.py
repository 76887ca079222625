"""The publisher: it merges counts, estimates tables and writes sets of snapshot records.

A *set* is all tables of one window and kind, with a manifest. The publisher stores nothing: it
compares the state topic with the snapshots topic, and writes the sets that are missing.
"""
