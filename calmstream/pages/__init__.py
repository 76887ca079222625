"""The output of commands: published tables for people, files for programs, generated pages.

docs/concepts.md and docs/reading-a-snapshot.md explain the terms.
"""
