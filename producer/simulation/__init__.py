"""Simulated populations of devices: for the command ``calmstream produce``, tests and evaluation.

``fleet`` keeps the secrets and ledgers of all devices, ``simulate`` lets them report, and
``produce`` sends their reports to a broker.
"""
