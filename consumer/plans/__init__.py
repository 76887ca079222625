"""One process for many plans: a worker for each, which share clients and threads.

A fault of one plan stops only its worker, which begins anew after a pause.
"""
