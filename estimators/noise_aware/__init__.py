"""The noise-aware recovery; `docs/methods/noise-aware.md` derives every step of it.

``design`` decides what is collected; ``input`` turns tallies into unbiased moments with known
variances; ``models`` holds Bayesian models of these, drawn by ``sampling``; ``tables`` turns
posteriors into tables and intervals; ``model`` chooses the regime; ``priors`` holds all priors.
"""
