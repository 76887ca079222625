"""Local mechanisms (frequency oracles): how one input becomes one perturbed report.

Each mechanism has one file; :mod:`.base` is their contract and :mod:`.registry` finds them by the
names that plans use. Every fact that other packages need about a mechanism is a member of the
contract. The formulas are in docs/methods/mechanisms.md.
"""
