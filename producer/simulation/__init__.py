"""Simulated populations of devices: for the command ``calmstream produce``, tests and evaluation.

``simulate`` lets all devices report at once, and ``produce`` sends their reports to a broker.
"""
