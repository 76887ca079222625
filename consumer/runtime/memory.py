"""What the C library does with freed memory: a service that reads for ever wants it back."""

from __future__ import annotations

import ctypes

# Of mallopt, from glibc's malloc.h; other C libraries have no such call.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_KEPT_BYTES = 64 << 20
# The largest that glibc takes; all buffers of the Kafka client are smaller.
_LARGEST_BYTES = 32 << 20


def keep_freed_memory() -> bool:
    """Have up to 64 MiB of freed memory per allocation arena kept for the next use.

    By default glibc gives a fetched buffer back to the system as it is freed and takes it anew for
    the next one, page by page: 8 % of a tally worker's CPU time, and more where several share a
    machine, since they then wait for each other in the kernel. The most that is in use at once does
    not change; it just stays.

    Returns:
        Whether the C library knows these settings.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    settings = ((_MMAP_THRESHOLD, _LARGEST_BYTES), (_TRIM_THRESHOLD, _KEPT_BYTES))
    return all(mallopt(name, value) == 1 for name, value in settings)
