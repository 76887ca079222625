"""The noise-aware recovery (METHODS §6), one step a file.

``allocation`` decides what is collected; ``statistics`` turns tallies into unbiased interactions
with known variances; ``traits`` and ``joint`` are two Bayesian models of those of bits, ``shared``
is one of those of categories; ``risk`` weighs candidates by an unbiased estimate of their error;
``targets`` makes tables; ``model`` puts the steps together.
"""
