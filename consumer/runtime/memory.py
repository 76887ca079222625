"""Lets the process keep freed memory, because a service that always reads needs it again soon."""

from __future__ import annotations

import ctypes

# Parameters of mallopt, from glibc's malloc.h; other C libraries do not have this function.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
# Freed memory that is kept: more than the buffers of one reader.
_KEPT_BYTES = 64 << 20
# Blocks of at most this size are kept. It is glibc's maximum; all buffers of the Kafka client are
# smaller.
_LARGEST_BYTES = 32 << 20


def keep_freed_memory() -> bool:
    """Keep at most 64 MiB of freed memory in each arena of the allocator, for the next use.

    By default glibc returns a freed fetch buffer to the system and requests it again for the next
    fetch, page by page. That costs CPU time, and even more if several workers share a machine,
    because they wait for each other in the kernel. The maximum memory of the process stays the
    same, but the process does not give it back.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    settings = ((_MMAP_THRESHOLD, _LARGEST_BYTES), (_TRIM_THRESHOLD, _KEPT_BYTES))
    return all(mallopt(name, value) == 1 for name, value in settings)
