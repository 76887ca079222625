"""One process for many plans: takes plans up, gives them back, and keeps faults at home.

``role`` is the loop. Each plan has a worker of its own, as a process with one plan has; the workers
share clients and threads. A fault of one plan stops only its worker, which begins anew after a
pause.
"""
