"""The aggregator of the central model: it reads raw records, and releases noisy tables once.

It trusts the aggregator; the local model, the default, does not use this package.
"""
