"""How far a log is on the device: its recovery point, and what to sync to move it.

Promises: everything below `recovery_point` survives a power cut, and it moves only when something was synced. The
segments' files come first, then the directory that names new ones; the checkpoint that vouches for both is the log
manager's, and comes after. It stays at or below the first record whose leader epoch the epochs' file may lack. Called
by `log`; the plans are run by whoever may wait for the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.storage.chores import SyncPlan

if TYPE_CHECKING:
    from ottla.storage.log import Log


class LogFlusher:
    """See the module."""

    __slots__ = ("_begun_count", "_log", "_named_count", "last_flushed_ms", "recovery_point")

    def __init__(self, owner: Log, recovery_point: int) -> None:
        self._log = owner
        self.recovery_point = recovery_point
        self.last_flushed_ms = owner.world.clock.now_ms()
        self._begun_count = 1  # names in the directory that are new, the first perhaps from whoever opened the log
        self._named_count = 0  # how many of them have durable names

    def on_new_name(self) -> None:
        """A segment was begun, or the file of the epochs replaced: the next flush makes the name durable."""
        self._begun_count += 1

    def go_back_to(self, offset: int) -> None:
        """What lies at or above `offset` is gone."""
        self.recovery_point = min(self.recovery_point, offset)

    def plan_roll_flush(self, offset: int, snapshot: str | None) -> SyncPlan | None:
        owner = self._log
        if owner.is_closed or owner.log_dir.is_offline:
            return None
        # The snapshot is synced even when a flush has come first: retention may soon remove what it was made from.
        plan = self.plan_flush(offset) or SyncPlan(owner.world.disk)
        if snapshot is not None and owner.world.disk.exists(snapshot):
            plan.files.append(owner.world.disk.open(snapshot))
            snapshot_file = plan.files[-1]
            on_done = plan.on_done

            def done() -> None:
                snapshot_file.close()
                on_done()

            plan.on_done = done
        return plan

    def plan_flush(self, offset: int | None = None, *, including_active: bool = False) -> SyncPlan | None:
        """What to sync so that everything below `offset` (the log end by default) survives a power cut."""
        owner = self._log
        # Not beyond the last batch: a chore may name an offset that a truncation has taken away since, and what is
        # appended later behind offsets without batches is not flushed by this.
        upper = min(owner.log_end_offset if offset is None else offset, owner.batches_end)
        truncation_count, begun_count = owner.trimmer.truncation_count, self._begun_count
        # There is nothing in it to lose, unless recovery or a truncation has emptied files that were not empty.
        is_unused = (
            owner.log_end_offset == 0 and owner.trimmer.truncation_count == 0 and not owner.segments.active.is_repaired
        )
        is_as_opened = (
            upper <= self.recovery_point
            and truncation_count == 0
            and begun_count == 1
            and not any(segment.has_touched_indexes for segment in owner.segments.covering(upper))
        )
        if upper + including_active <= self.recovery_point or is_unused or is_as_opened:
            return None
        if including_active:
            owner.epochs.flush(owner.log_end_offset)  # an orderly stop, for which the chore may come too late
        # Below the recovery point nobody reads records again to learn their epochs, so the file must have them first.
        unwritten_from = owner.epochs.unwritten_from
        flushed = upper if unwritten_from is None else min(upper, unwritten_from)
        plan = SyncPlan(
            owner.world.disk,
            on_done=lambda: self._mark_flushed(flushed, truncation_count, begun_count),
            on_failed=self.on_failed,
        )
        for segment in owner.segments.covering(self.recovery_point, upper + including_active):
            plan.files += segment.files_to_sync()
        # The names of new segments are part of what has to survive; at an orderly stop also that of an index of aborted
        # transactions, which nobody would miss.
        if begun_count != self._named_count or including_active:
            plan.directories.append(owner.directory)
        return plan

    def _mark_flushed(self, offset: int, truncation_count: int, begun_count: int) -> None:
        self._named_count = max(self._named_count, begun_count)
        # What was synced may have been truncated meanwhile, and other records be there now.
        if offset > self.recovery_point and truncation_count == self._log.trimmer.truncation_count:
            self.recovery_point = offset
            self.last_flushed_ms = self._log.world.clock.now_ms()

    def on_failed(self, error: OSError) -> None:
        owner = self._log
        if not owner.is_closed:  # or the files were closed under the sync, and nothing is wrong
            owner.log_dir.take_offline(f"flushing {owner.partition}", error)

    def flush(self, offset: int | None = None, *, including_active: bool = False) -> None:
        """Return when everything below `offset` (the log end by default) is on the device."""
        owner = self._log
        owner.check_usable()
        try:
            owner.epochs.flush(owner.log_end_offset)
            plan = self.plan_flush(offset, including_active=including_active)
            if plan is not None:
                plan.run()
        except OSError as error:
            owner.log_dir.fail(f"flushing {owner.partition}", error)
