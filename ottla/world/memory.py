"""Memory from the system that costs nothing before it is written to.

`bytearray(size)` writes its zeros at once, so that every page of a buffer is resident although most connections never
fill it. Anonymous mapped pages are zero as well, and the kernel gives each at its first use.
"""

from __future__ import annotations

import mmap


def untouched_memory(size: int) -> memoryview:
    """A writable view of `size` zero bytes of its own; it is given back with the last view of it."""
    # Python maps memory shared unless told otherwise: then a forked process would write into its parent's.
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
