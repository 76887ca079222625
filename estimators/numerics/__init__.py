"""Numerical procedures that do not depend on plans.

Here are projections onto consistent and non-negative tables, maximum entropy, covering designs,
transforms, likelihoods and counts of subsets. They take arrays and attribute sets.
"""
