"""Parts that several methods use.

For designs these are the choice of CALM's views (`calm_size`), the distribution of views over
groups (`packing`) and the reading of parameters (`options`). For estimates these are consistent
tables from overlapping views (`overlapping`) with their variances (`pooled_variance`), and tables
from Fourier coefficients (`coefficients`, `coefficient_model`). docs/concepts.md explains the
terms.
"""
