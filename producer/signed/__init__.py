"""Signed plans: keys, certificates, envelopes, and why a device refuses a plan.

The formats stand in ``docs/signed-plans.md``. The package ``cryptography`` is imported only where a
signature is made or verified.
"""
