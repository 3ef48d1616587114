"""Decide → make durable → replay: the one way in which replicated state changes. See README.md.

`Machine` runs decisions, `UndoLog` and `UndoDict` hold the state that can be taken back. The controller and the
coordinators stand on it.
"""

from ottla.machine.machine import PARKED_MAX, UNCOMMITTED_MAX, Machine, Result
from ottla.machine.undo import UndoDict, UndoLog

__all__ = ["PARKED_MAX", "UNCOMMITTED_MAX", "Machine", "Result", "UndoDict", "UndoLog"]
