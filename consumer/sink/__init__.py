"""Copies the published tables of a plan to a database or to files, for readers without Kafka."""
