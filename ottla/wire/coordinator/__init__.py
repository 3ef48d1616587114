"""The records of the coordinators' topics, and how they are framed.

A record's class is in the module of its group type: `offsets`, `classic_group`, `consumer_group`, `share_group`,
`streams_group`, `transaction`, `share_state`. The framings load it when they meet it.
"""

from __future__ import annotations

from ottla.wire.coordinator.framing import GROUP, SHARE, TRANSACTION, CoordinatorRecords

__all__ = ["GROUP", "SHARE", "TRANSACTION", "CoordinatorRecords"]
