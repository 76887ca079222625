"""CALM (Zhang et al., CCS 2018): overlapping views of a few attributes, made consistent."""
