"""Marginal release under LDP (Cormode, Kulkarni, Srivastava, SIGMOD 2018)."""
