"""The noise-aware method; `docs/methods/noise-aware.md` derives every step of it.

``design`` chooses the views, which are sets of attributes, and their shares of users. ``input``
turns tallies, the counts of reports, into unbiased moments with known variances. ``models`` holds
Bayesian models of moments, from which ``sampling`` draws. ``tables`` turns posteriors into tables
with intervals. ``model`` chooses which of these serve a domain, ``priors`` holds all priors. For
other words see `docs/concepts.md`.
"""
