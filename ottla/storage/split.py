"""Splitting a segment whose offsets span more than its indexes can hold.

Kafka before 2.0 could compact such segments together (KAFKA-6264); a directory that old can still arrive here.
Called by `loader`, which starts over afterwards.
"""

from __future__ import annotations

import logging

from ottla.config import LogConfig
from ottla.storage import names
from ottla.storage.chores import DirectoryChores
from ottla.storage.index import RELATIVE_OFFSET_MAX
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments
from ottla.storage.swap import swap_in
from ottla.world import World

log = logging.getLogger(__name__)


def split_segment(
    world: World, segment: Segment, segments: Segments, config: LogConfig, chores: DirectoryChores
) -> list[Segment]:
    """Replace `segment` by as many as its offsets need; together they hold the same bytes."""
    log.info("[Segment %s] Splitting overflowed segment", segment.path)
    parts: list[Segment] = []
    for _, batch in segment.batches():
        if not parts or batch.last_offset - parts[-1].base_offset > RELATIVE_OFFSET_MAX:
            parts.append(Segment.create(world, segment.directory, batch.base_offset, config, suffix=names.CLEANED))
        parts[-1].append(batch.data, [batch], batch.last_offset)
    modified_ms = segment.modified_ms
    for part in parts:
        part.on_become_inactive()
        part.flush()
        part.modified_ms = modified_ms
    assert sum(part.size for part in parts) == segment.size, f"{segment}: the split lost bytes"
    swap_in(world.disk, segment.directory, segments, parts, [segment], chores, config)
    return parts
