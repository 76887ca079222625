"""The sending side: it perturbs records into reports, merges reports into batches and sends them.

``device`` runs on each person's device, ``gateway`` collects the reports of many devices,
``signed`` holds the formats of signed plans, ``simulation`` simulates populations of devices, and
``central`` sends raw records for central plans. The terms plan, lineage, group, view and window are
explained in ``docs/concepts.md``.
"""
