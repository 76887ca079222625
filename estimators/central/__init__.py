"""DP Marginals: an aggregator is trusted with raw records, and only releases are noisy.

The promise, its assumptions and its proof are in docs/central-privacy.md.
"""
