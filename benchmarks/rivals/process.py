"""What /proc says of another process: CPU time spent, page faults, memory held."""

from __future__ import annotations

import os
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
"""The step in which the system tells CPU time."""


def cpu_s(pid: int) -> float:
    """Seconds of CPU that all threads of a process have used so far, the kernel's work for them included."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) * TICK_S


def minor_faults(pid: int) -> int:
    """How many pages a process has touched for the first time: unlike CPU time, other load does not change it."""
    return int(_stat(pid)[7])


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM, files that it has mapped included."""
    for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/{pid}/status has no VmRSS")


def _stat(pid: int) -> list[str]:
    # The name of the command, in brackets, may hold anything; the fields are counted from behind it.
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
