"""The noise-aware method; `docs/methods/noise-aware.md` derives every step of it.

``design`` and ``signs`` choose what devices are asked. ``statistics`` turns tallies into unbiased
moments with known variances. ``density``, ``priors`` and ``residuals`` are the one model, a few
hidden causes of every record; ``sampler`` draws from its posterior. ``tables`` turns draws into
tables with intervals. ``model`` puts these together.
"""
