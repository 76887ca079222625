"""Marginals in the central model: a trusted aggregator sees raw records.

`docs/central-privacy.md` says what is promised, on which assumptions, and why it holds.

Nothing here is local differential privacy: records enter in the clear, and what leaves is noisy.
"""
