"""Marginals in the central model: a trusted aggregator receives raw records.

This is not local differential privacy: records arrive in the clear, and only the releases are
noisy. A release is a list of k-tuples (k columns with a value for each) with noisy counts, by the
algorithm DP Marginals. The package computes a release, its privacy cost and the budget that is
left. The promise, its assumptions and its proof are in docs/central-privacy.md.
"""
