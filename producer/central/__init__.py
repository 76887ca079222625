"""Sending for central plans: raw records go to a trusted aggregator, without perturbation."""
