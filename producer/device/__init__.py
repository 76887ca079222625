"""The part that runs on a person's device.

``reporter`` turns a record into a perturbed report where ``policy``, ``ledger`` and ``totals``
allow one. What they know is in the device's ``store``.
"""
