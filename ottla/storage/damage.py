"""What is raised when a small file of the log directory does not hold what its format asks for.

One class for checkpoints, properties and snapshots, so that whoever opens a directory has one thing to catch: to start
the recovery point at zero, to fall back to an older snapshot, or to take the directory offline. Damaged segments and
indexes are another matter (`index.CorruptIndex`): those are rebuilt from the log.
"""

from __future__ import annotations


class DamagedFile(Exception):
    """A file that cannot be read: which one, where in it, what belongs there and what was found."""

    def __init__(self, path: str, place: str, expected: str, found: object) -> None:
        super().__init__(f"{path}, {place}: expected {expected}, found {found}")
        self.path = path
        self.place = place
        self.expected = expected
