"""`ElectionCounts`: how many leaders were elected that operators want to know about.

A publisher of the metadata loader on every controller, as in Kafka. An election is counted when the image shows it, so
of several in one delta the last counts. Read when metrics are asked for.
"""

from __future__ import annotations

from ottla.metadata.delta import Delta
from ottla.metadata.image import Image
from ottla.metadata.partition import NO_LEADER, LeaderRecoveryState


class ElectionCounts:
    """Since this process was started."""

    def __init__(self) -> None:
        self.unclean_count = 0
        """Leaders that were in neither ISR nor ELR: records may be lost."""
        self.from_elr_count = 0
        """Leaders that were not in the ISR, and had everything all the same (KIP-966)."""

    def on_metadata(self, delta: Delta, image: Image) -> None:
        if delta.is_snapshot:
            return
        for topic in delta.changed_topics.values():
            for old, new in topic.changed_partitions.values():
                if old is not None and new.leader_epoch > old.leader_epoch and new.leader != NO_LEADER:
                    self.unclean_count += new.leader_recovery_state is LeaderRecoveryState.RECOVERING
                    self.from_elr_count += new.leader in old.elr
