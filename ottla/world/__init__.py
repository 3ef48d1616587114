"""The one door to the outside: clock, randomness, disk, network and tasks.

Production passes `system.system_world()`, the simulator passes a virtual one. Nothing above this package imports
`os`, `time`, `random` or `socket`: `tests/test_tidy.py` holds that.
"""

from ottla.world.clock import Clock
from ottla.world.disk import Disk, Entry, File, Lock, Space
from ottla.world.memory import untouched_memory
from ottla.world.network import (
    BACKLOG,
    Accept,
    Address,
    Listener,
    Network,
    Part,
    Slice,
    Stream,
    StreamHandler,
    connect_failure,
)
from ottla.world.numbering import next_number, number_anew
from ottla.world.tasks import Promise, Task, Tasks, Timer
from ottla.world.world import ClientWorld, NodeWorld, World

__all__ = [
    "BACKLOG",
    "next_number",
    "number_anew",
    "World",
    "NodeWorld",
    "ClientWorld",
    "Clock",
    "Disk",
    "Entry",
    "File",
    "Lock",
    "Space",
    "Network",
    "Listener",
    "Accept",
    "Stream",
    "StreamHandler",
    "Address",
    "Part",
    "Slice",
    "Tasks",
    "Task",
    "Timer",
    "Promise",
    "connect_failure",
    "untouched_memory",
]
