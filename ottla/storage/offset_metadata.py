"""An offset together with its place in the files, where that is known.

The place lets a read stop exactly at the high watermark or the last stable offset without searching for it again.
"""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN_SEGMENT = -1
UNKNOWN_POSITION = -1


class OffsetMetadata(NamedTuple):
    """`offset` is in the segment that begins at `segment_base_offset`, at byte `position` of its file."""

    offset: int
    segment_base_offset: int = UNKNOWN_SEGMENT
    position: int = UNKNOWN_POSITION

    @property
    def is_offset_only(self) -> bool:
        """Whether the place still has to be looked up."""
        return self.segment_base_offset == UNKNOWN_SEGMENT
