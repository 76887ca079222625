"""Signed plans: keys, certificates, envelopes, and the reasons why a device refuses a plan.

An operator has a *root* key. With a certificate, the root key states that a *signing* key may sign
plans for some time. An *envelope* is a file that contains a plan, its signature and the
certificate. ``docs/signed-plans.md`` defines the formats. The package ``cryptography`` is imported
only to make or verify a signature.
"""
