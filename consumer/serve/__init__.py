"""Answers over HTTP: plans, windows and tables, read-only, from the topics alone."""
