"""Definitions of all Prometheus metrics, and the registry that holds them."""
