"""Keeps freed memory in the process: a service that reads all the time uses it again at once."""

from __future__ import annotations

import ctypes

# Of mallopt, from glibc's malloc.h; other C libraries have no such call.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_KEPT_BYTES = 64 << 20
# The largest that glibc takes; all buffers of the Kafka client are smaller.
_LARGEST_BYTES = 32 << 20


def keep_freed_memory() -> bool:
    """Keep up to 64 MiB of freed memory per allocation arena for the next use.

    By default glibc returns a freed fetch buffer to the system and requests it again for the next
    fetch, page by page. That takes CPU time, and more where several workers share a machine, since
    they wait for each other in the kernel. The peak of memory in use does not change; it is kept.

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
