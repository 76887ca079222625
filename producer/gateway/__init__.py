"""Beside the broker: reports become batches, and batches are sent exactly once."""
