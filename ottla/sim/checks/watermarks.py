"""What never goes back, in one life of one replica: its high watermark, its last stable offset and its log start.

As clients see them, in answers of that node. Between two replicas, and between two lives of one, they may: a new leader
learns how far the others have come only by and by.
"""

from __future__ import annotations

from ottla.sim.history import Violation

UNKNOWN = -1


class Watermarks:
    """The last offsets that every life of every replica has told."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str, str], int] = {}
        self.observation_count = 0
        self.advance_count = 0
        """How often one of them was higher than before."""
        self.start_advance_count = 0

    def observe(
        self,
        observer: str,
        partition: str,
        *,
        high_watermark: int = UNKNOWN,
        last_stable_offset: int = UNKNOWN,
        log_start_offset: int = UNKNOWN,
    ) -> None:
        """What one life of a node tells of its replica; what it does not tell is left out."""
        self.observation_count += 1
        known = {
            "high watermark": high_watermark,
            "last stable offset": last_stable_offset,
            "log start offset": log_start_offset,
        }
        for name, offset in known.items():
            if offset == UNKNOWN:
                continue
            before = self._told.get((observer, partition, name), offset)
            if offset < before:
                raise Violation(f"the {name} of {partition} at {observer} is {offset} and was {before}")
            if offset > before:
                self.advance_count += 1
                self.start_advance_count += name == "log start offset"
            self._told[observer, partition, name] = offset
        if UNKNOWN not in (high_watermark, log_start_offset) and log_start_offset > high_watermark:
            raise Violation(f"{partition} at {observer} begins at {log_start_offset}, above its {high_watermark}")
        if UNKNOWN not in (high_watermark, last_stable_offset) and last_stable_offset > high_watermark:
            raise Violation(f"{partition} at {observer} is stable to {last_stable_offset}, above its {high_watermark}")
