"""Marginals in the central model, which trusts an aggregator with raw records: DP Marginals.

Records arrive in the clear, and only the releases, k-tuples with noisy counts, are noisy. The
promise, its assumptions and its proof are in docs/central-privacy.md.
"""
