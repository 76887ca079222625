"""Signed plans: keys, certificates, envelopes, refusals; formats in ``docs/signed-plans.md``.

A *root* key certifies *signing* keys; an *envelope* holds a plan, its signature and certificate.
"""
