"""The noise-aware recovery (METHODS §6), one step a file.

``allocation`` decides what is collected; ``statistics`` turns tallies into unbiased interactions
with known variances; ``shared`` and ``joint`` are two Bayesian models of them; ``risk`` weighs
candidates by an unbiased estimate of their error; ``targets`` makes tables; ``model`` puts the
steps together.
"""
