"""A crash at every operation of a run: what the next start finds is the old log or the new one, and cleans it again.

The disk is virtual. Either the process dies and the system lives on, or the power goes and takes what was not synced.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ottla.sim import CHANGES, Kind, Moment, SimulatedCrash, VirtualWorld
from ottla.storage import Chores, Isolation, Log, LogDir
from ottla.storage.cleanable import measure
from ottla.storage.cleaner import Cleaning
from ottla.storage.offset_map import ENTRY_BYTES, OffsetMap
from tests.support.logs import DIRECTORY, TestLog, new_world, read_records

Row = tuple[int, bytes | None, bytes | None]
RENAMES: tuple[Kind, ...] = ("rename",)


class Life:
    """A log with several groups of segments to clean: transactions, aborts, tombstones, idempotent producers."""

    def __init__(self, seed: int) -> None:
        self.world: VirtualWorld = new_world(seed)
        self.test = TestLog(
            self.world, cleanup_policy="compact", internal_segment_bytes=500, index_interval_bytes=100,
            file_delete_delay_ms=1000,
        )  # fmt: skip
        append = self.test.append
        for place in range(7):
            append(b"%d" % place, b"x" * 20, b"1", keys=[b"a", b"b", b"k%d" % place])
            append(None, key=b"k%d" % place, producer_id=1, sequence=place)
            append(b"%d" % place, key=b"t", producer_id=7, sequence=place, is_transactional=True)
            self.test.end_transaction(7, commit=place % 2 == 0)
        self.test.log.roll()
        append(b"active", key=b"a")
        self.log.flush(including_active=True)
        self.test.chores.run_due()
        for directory in (self.test.path, DIRECTORY, "/"):
            self.world.disk.sync_dir(directory)

    @property
    def log(self) -> Log:
        return self.test.log

    def clean(self) -> None:
        found = measure(self.log, None, self.world.clock.now_ms())
        cleaning = Cleaning(
            self.world,
            self.log,
            OffsetMap(100 * ENTRY_BYTES),
            first_dirty_offset=found.first_dirty_offset,
            first_uncleanable_offset=found.first_uncleanable_offset,
            step_bytes=300,
        )
        while not cleaning.is_done:
            plan = cleaning.step()
            if plan is not None:
                plan.run()

    def restart(self, *, recovery_point: int) -> None:
        self.test.chores = Chores(self.world.clock)
        self.test.directory = LogDir(DIRECTORY)
        self.test.open(recovery_point=recovery_point)
        self.log.update_high_watermark(self.log.log_end_offset)

    def rows(self, isolation: Isolation = Isolation.LOG_END) -> list[Row]:
        return [(record.offset, record.key, record.value) for record in read_records(self.log, isolation=isolation)]

    def latest(self) -> dict[bytes | None, bytes | None]:
        """What a reader of committed records ends up with."""
        return {key: value for _, key, value in self.rows(Isolation.TXN_COMMITTED)}

    def producers(self) -> dict[int, tuple[int, int]]:
        return {
            producer_id: (entry.producer_epoch, entry.last_sequence)
            for producer_id, entry in self.log.producers.producers.items()
        }

    def files(self) -> list[str]:
        return self.world.disk.names(self.test.path)


def count_changes(world: VirtualWorld, work: Callable[[], None]) -> int:
    before = sum(world.disk.counts[kind] for kind in CHANGES)
    work()
    return sum(world.disk.counts[kind] for kind in CHANGES) - before


@pytest.mark.parametrize("has_power", [True, False], ids=["the process dies", "the power goes"])
@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_a_crash_at_any_operation_leaves_the_old_records_or_the_new(moment: Moment, has_power: bool) -> None:
    life = Life(0)
    old, latest, producers, end_offset = life.rows(), life.latest(), life.producers(), life.log.log_end_offset
    operations = count_changes(life.world, life.clean)
    new = life.rows()
    assert set(new) < set(old)
    assert len(life.log.segments) > 3
    for nth in range(1, operations + 1):
        life = Life(nth)
        life.world.disk.crash_at(nth, kinds=CHANGES, moment=moment)
        with pytest.raises(SimulatedCrash):
            life.clean()
        if has_power:
            life.world.disk.process_crash()
        else:
            life.world.disk.crash()
        life.restart(recovery_point=random.Random(nth).choice((0, end_offset)))
        found = life.rows()
        where = f"crash {moment} change {nth} of {operations}\n{life.world.disk.trace()}"
        assert life.log.log_end_offset == end_offset, where
        assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found}), where
        assert set(new) <= set(found) <= set(old), where
        assert (life.latest(), life.producers()) == (latest, producers), where
        assert not [name for name in life.files() if name.endswith((".cleaned", ".swap"))], where
        life.clean()
        assert (life.rows(), life.latest(), life.producers()) == (new, latest, producers), where
        life.world.clock.advance(1000)
        life.test.chores.run_due()
        bases = {f"{base:020d}" for base in life.log.segments.base_offsets}
        strays = [name for name in life.files() if name[:20].isdigit() and name[:20] not in bases]
        assert [name for name in strays if not name.startswith(f"{end_offset:020d}.snapshot")] == [], where


def test_a_crash_while_a_start_puts_an_interrupted_swap_right_is_put_right_by_the_next() -> None:
    """A crash in a swap, at every fifth rename, and then one at every change of the loading that follows."""
    life = Life(0)
    new_latest = life.latest()
    renames = count_renames(life)
    for nth in range(1, renames + 1, 5):
        for again in range(1, 200):
            life = Life(nth)
            old = life.rows()
            life.world.disk.crash_at(nth, kinds=RENAMES, moment="after")
            with pytest.raises(SimulatedCrash):
                life.clean()
            life.world.disk.process_crash()
            life.world.disk.crash_at(again, kinds=CHANGES)
            try:
                life.restart(recovery_point=life.log.log_end_offset)
            except SimulatedCrash:
                life.world.disk.crash()
                life.restart(recovery_point=life.log.log_end_offset)
                assert set(life.rows()) <= set(old)
                assert life.latest() == new_latest, f"rename {nth}, then change {again}\n{life.world.disk.trace()}"
            else:
                break
        assert again > 1, f"no change was made by the start after rename {nth}"


def count_renames(life: Life) -> int:
    before = life.world.disk.counts["rename"]
    life.clean()
    return life.world.disk.counts["rename"] - before
