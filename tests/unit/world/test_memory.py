"""Memory that nothing was written to is not resident."""

from __future__ import annotations

import os
from pathlib import Path

from ottla.world import untouched_memory

MIB = 1024 * 1024


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_untouched_memory_is_zero_writable_and_resident_only_where_it_was_used() -> None:
    before = resident_bytes()
    memory = untouched_memory(64 * MIB)
    assert resident_bytes() - before < 8 * MIB
    assert len(memory) == 64 * MIB
    memory[:3] = b"abc"
    assert bytes(memory[:4]) == b"abc\0"
    memory[:] = bytes(64 * MIB)
    assert resident_bytes() - before >= 64 * MIB


def test_a_forked_process_writes_to_memory_of_its_own() -> None:
    """Or a worker that was forked would write into what its parent's connections receive."""
    memory = untouched_memory(MIB)
    memory[:6] = b"parent"
    child = os.fork()
    if not child:
        memory[:6] = b"worker"
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bytes(memory[:6]) == b"parent"
