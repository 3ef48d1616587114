"""Work that a log leaves for later: removing files that readers may still hold, syncing what a roll has closed.

The core never waits and has no threads: it puts a chore here, and whoever drives it (a broker's scheduler, a test)
runs what is due. A chore may return a `SyncPlan`: the slow part, device syncs and the removal of files, which may run
in another thread while the log goes on. Promises: chores run in the order they became due; one that raises does not
stop the others.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from ottla.errors import KafkaStorageError
from ottla.storage.log_dir import LogDir
from ottla.world import Clock, Disk, File

log = logging.getLogger(__name__)


@dataclass(slots=True)
class SyncPlan:
    """Files and directories to sync, files and directories to remove, and what to record once that is done."""

    disk: Disk
    files: list[File] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    on_done: Callable[[], None] = lambda: None
    on_failed: Callable[[OSError], None] = lambda error: None
    """Told of a sync that failed, in whatever thread: what it should have made durable may be lost, and a second sync
    of the same file would not say so again."""
    removed_files: list[str] = field(default_factory=list)
    """Those that are gone already are no error."""
    removed_trees: list[str] = field(default_factory=list)

    @property
    def is_removal(self) -> bool:
        return bool(self.removed_files or self.removed_trees)

    def sync(self) -> None:
        """The slow part. Touches nothing but the device."""
        try:
            for file in self.files:
                file.sync()
            for directory in self.directories:
                self.disk.sync_dir(directory)
            for path in self.removed_files:
                if self.disk.exists(path):
                    self.disk.remove(path)
            for path in self.removed_trees:
                self.disk.remove_tree(path)
        except OSError as error:
            self.on_failed(error)
            raise

    def run(self) -> None:
        self.sync()
        self.on_done()


def sync_all(plans: Sequence[SyncPlan]) -> list[OSError | None]:
    """The slow parts of several plans that remove nothing, and why each failed or None. A directory that many of them
    name is synced once, after all files."""
    failures = [_failure_of(plan, partial(_sync_files, plan)) for plan in plans]
    synced: dict[str, OSError | None] = {}
    for place, plan in enumerate(plans):
        assert not plan.is_removal, "what is removed has a turn of its own"
        for directory in plan.directories if failures[place] is None else ():
            if directory not in synced:
                synced[directory] = _failure_of(plan, partial(plan.disk.sync_dir, directory))
            failures[place] = failures[place] or synced[directory]
    return failures


def _sync_files(plan: SyncPlan) -> None:
    for file in plan.files:
        file.sync()


def _failure_of(plan: SyncPlan, call: Callable[[], None]) -> OSError | None:
    try:
        call()
    except OSError as error:
        plan.on_failed(error)
        return error
    return None


Chore = Callable[[], SyncPlan | None]


class Chores:
    """Chores by due time. Bounded by what causes them: each segment and snapshot is closed or deleted once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, str, Chore]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_due_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def later(self, delay_ms: int, what: str, chore: Chore) -> None:
        """Have it run when it is due. Logs that are being opened in other threads do so too: both steps are atomic."""
        heapq.heappush(self._heap, (self._clock.now_ms() + delay_ms, next(self._numbers), what, chore))

    def of(self, directory: LogDir) -> DirectoryChores:
        """The chores of the logs in one directory."""
        return DirectoryChores(self, directory)

    def take_due(self) -> tuple[str, Chore] | None:
        """The chore that has been due for longest, for a driver that runs one at a time and syncs elsewhere."""
        if not self._heap or self._heap[0][0] > self._clock.now_ms():
            return None
        _, _, what, chore = heapq.heappop(self._heap)
        return what, chore

    def run_due(self) -> int:
        """Run every chore that is due, its syncs included; returns how many ran."""
        now_ms = self._clock.now_ms()
        ran = 0
        while self._heap and self._heap[0][0] <= now_ms:
            _, _, what, chore = heapq.heappop(self._heap)
            ran += 1
            try:
                plan = chore()
                if plan is not None:
                    plan.run()
            except (OSError, KafkaStorageError) as error:
                log.error("[Chores] %s failed: %s", what, error)
        return ran


class DirectoryChores:
    """Chores that touch one directory: left undone once it is offline, and a device that fails takes it there."""

    __slots__ = ("_chores", "_directory")

    def __init__(self, chores: Chores, directory: LogDir) -> None:
        self._chores = chores
        self._directory = directory

    def later(self, delay_ms: int, what: str, chore: Chore) -> None:
        def run() -> SyncPlan | None:
            if self._directory.is_offline:
                return None
            try:
                plan = chore()
            except OSError as error:
                self._directory.fail(what, error)
            if plan is not None and plan.is_removal:
                plan.on_failed = partial(self._directory.take_offline, what)
            return plan

        self._chores.later(delay_ms, what, run)
