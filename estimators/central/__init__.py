"""Marginals in the central model: a trusted aggregator sees raw records (METHODS §7).

Nothing here is local differential privacy: records enter in the clear, and what leaves is noisy.
"""
