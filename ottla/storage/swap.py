"""Replacing and removing segment files so that a crash at any step leaves one whole log.

New segments are written and synced as `.cleaned`, renamed to `.swap`, the old files are renamed to `.deleted`, and
the `.swap` goes away last. What `loader` finds after a crash tells how far it got: any `.cleaned` means the new ones
were not complete, and they go; `.swap` alone means they were, and they win. Called by `log`, `loader`, `cleaner`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.config import LogConfig
from ottla.storage import names
from ottla.storage.chores import DirectoryChores, SyncPlan
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments
from ottla.world import Disk


def swap_in(
    disk: Disk,
    directory: str,
    segments: Segments,
    new: Sequence[Segment],
    old: Sequence[Segment],
    chores: DirectoryChores,
    config: LogConfig,
) -> list[Segment]:
    """Let `new` (synced, suffix `.cleaned`) replace `old`; returns those of `old` whose base offset is gone."""
    fresh = sorted(new, key=lambda segment: segment.base_offset)
    # Some may have been deleted by retention since the caller looked.
    stale = [segment for segment in old if segment.base_offset in segments and segments[segment.base_offset] is segment]
    stale.sort(key=lambda segment: segment.base_offset)
    # From the last to the first: after a crash in between, the `.cleaned` that are left lie below every `.swap`, which
    # tells the loader that the set is not complete.
    for segment in reversed(fresh):
        segment.change_suffix(names.SWAP)
    disk.sync_dir(directory)
    for segment in stale:
        segments.remove(segment)
    for segment in fresh:
        segments.add(segment)
    retire_segments(stale, chores, config)
    for segment in fresh:
        segment.change_suffix("")
    disk.sync_dir(directory)
    kept = {segment.base_offset for segment in fresh}
    return [segment for segment in stale if segment.base_offset not in kept]


def retire_segments(segments: Sequence[Segment], chores: DirectoryChores, config: LogConfig) -> None:
    """Mark files as deleted at once, and remove them when no reader can have them open any more."""
    for segment in segments:
        if segment.suffix != names.DELETED:
            segment.change_suffix(names.DELETED)
        chores.later(config.file_delete_delay_ms, f"removal of {segment.path}", segment.plan_removal)


def remove_later(disk: Disk, path: str, chores: DirectoryChores, config: LogConfig) -> None:
    """Remove a file that has been marked as deleted; it may be gone by then."""
    chores.later(config.file_delete_delay_ms, f"removal of {path}", lambda: SyncPlan(disk, removed_files=[path]))
