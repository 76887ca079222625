"""The part that runs on a person's device.

``reporter`` turns a record into a perturbed report. Before that, ``acceptance`` decides whether the
device accepts the plan, within the application's ``policy``; ``assignment`` decides what the device
reports about; and ``ledger`` and ``totals`` decide whether its privacy loss allows a report. All of
this is kept in the device's ``store``.
"""
