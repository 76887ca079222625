"""Parts that several methods use.

Designs use CALM's view sizes, the packing of views into groups, and the strict reading of a
method's parameters. Recoveries use consistent overlapping tables with the variances of pooled
estimates, and tables from Fourier coefficients.
"""
