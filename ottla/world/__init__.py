"""The one door to the outside: clock, randomness and disk today; network and tasks arrive with the broker.

Production passes `system.system_world()`, the simulator passes a virtual one. Nothing above this package imports
`os`, `time`, `random` or `socket`: `tests/test_tidy.py` holds that.
"""

from ottla.world.clock import Clock
from ottla.world.disk import Disk, Entry, File, Lock
from ottla.world.world import World

__all__ = ["Clock", "Disk", "Entry", "File", "Lock", "World"]
