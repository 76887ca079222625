"""Numerical procedures that do not depend on plans; they take arrays and sets of attributes.

The package has projections onto consistent and non-negative tables, maximum entropy, covering
designs, transforms, likelihoods, counts of subsets, and samplers for posterior distributions.
docs/concepts.md explains the terms.
"""
