"""Memory for large things that come again and again: what a fetch brings, above all.

The twin in plain Python of `take_memory` in csrc, which keeps large blocks for the next one when their last view is
gone: the first touch of a page costs more than what is done with it afterwards.
"""

from __future__ import annotations


def take_memory(size: int, /) -> memoryview:
    """A writable view of `size` bytes. Their content is whatever they were last used for: fill them before use."""
    return memoryview(bytearray(size))
