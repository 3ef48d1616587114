"""Devices that fail: an operation returns EIO or ENOSPC, once or from then on, or the disk is full.

The directory must go offline alone and must not be written to any more; the logs in the others go on. After a repair
and a restart nothing that was flushed is missing, and nothing is served that was not appended.
"""

from __future__ import annotations

import errno

from ottla.errors import KafkaStorageError
from ottla.sim import CHANGES, Kind, Moment
from tests.crash.recovered import check_log
from tests.crash.run import Run
from tests.crash.workload import Workload
from tests.support.log_model import Existence

# A file that cannot be removed costs room and no data: that alone takes no directory offline.
HARMFUL: tuple[Kind, ...] = ("create", "write", "truncate", "sync", "rename", "sync_dir")
MOMENTS: tuple[Moment, ...] = ("before", "during")


class DeviceErrors(Run):
    command = "errors"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._broken: str | None = None
        self._may_have_failed_sync = False
        self._is_durable = True

    def _live(self) -> None:
        self._may_have_failed_sync = False
        if self.model.partitions and self.random.random() < 0.15:
            workload = self._start_on_a_bad_device()
            if workload is None:
                return self._end()
        else:
            workload = self._start(is_durable=self._is_durable)
        for _ in range(self.random.choice((10, 40))):
            workload = self._step(workload)
        self._break()
        for _ in range(80):
            workload = self._step(workload)
            if workload.offline:
                break
        self.disk.capacity_bytes = None
        if not workload.offline:
            self.model.operations.append("-------  nothing failed")
            return self._end()
        self._note("device", f"offline: {sorted(workload.offline)}")
        self._go_on(workload)
        return self._end()

    def _start_on_a_bad_device(self) -> Workload | None:
        """Something fails while logs are opened; None when no directory is left."""
        kinds: tuple[Kind, ...] = self.random.choice((CHANGES, ("read", "scan", "open", "stat")))
        self._may_have_failed_sync = True
        self.disk.fail_at(self.random.randint(1, 60), errno.EIO, kinds=kinds)
        manager = self._open()
        try:
            manager.start()
        except KafkaStorageError:
            self._note("device at start", "no directory is left")
            return None
        finally:
            self.disk.clear_faults()
        if len(manager.live_directories) < len(self.directories):
            self._note("device at start", "a directory is offline")
        return self._judge(manager, is_durable=self._is_durable)

    def _break(self) -> None:
        """Plan what goes wrong."""
        choice = self.random.randrange(4)
        self._may_have_failed_sync |= choice != 0
        match choice:
            case 0:
                self.disk.capacity_bytes = self.disk.used_bytes + self.random.choice((0, 300, 3000))
            case 1:
                self._broken = self.random.choice(self.directories)
            case _:
                error = self.random.choice((errno.EIO, errno.ENOSPC))
                kinds = self.random.choice((HARMFUL, ("write",), ("sync", "sync_dir")))
                moment = self.random.choice(MOMENTS)
                self.disk.fail_at(self.random.randint(1, 60), error, kinds=kinds, moment=moment)

    def _write_down(self, kind: Kind, path: str) -> None:
        super()._write_down(kind, path)
        if self._broken is not None and kind in HARMFUL and path.startswith(self._broken):
            raise OSError(errno.EIO, "the device is broken", path)

    def _go_on(self, workload: Workload) -> None:
        """The other directories work, and the one that failed is left alone."""
        offline = tuple(f"{path}/" for path in workload.offline)
        self._broken = None
        self.disk.clear_faults()
        written: list[str] = []

        def watch(kind: Kind, path: str) -> None:
            self._write_down(kind, path)
            if kind in CHANGES and path.startswith(offline):
                written.append(f"{kind} {path}")

        self.disk.on_operation = watch
        for _ in range(30):
            if not workload.manager.live_directories:
                break
            workload = self._step(workload)
        self.disk.on_operation = self._write_down
        assert not written, f"a directory that is offline was written to: {written[:5]}"
        for partition in self.model.partitions.values():
            if partition.existence is Existence.LIVE and partition.directory not in workload.offline:
                log = workload.manager.logs[partition.partition]
                check_log(partition, log, self.random, is_recovered=False)
                partition.high_watermark = log.high_watermark

    def _step(self, workload: Workload) -> Workload:
        workload.step()
        if workload.wants_restart and not workload.offline and self._broken is None:
            self.disk.clear_faults()
            self.disk.capacity_bytes = None
            return self._restart(workload)
        workload.wants_restart = False
        return workload

    def _end(self) -> None:
        """The device is repaired and the node started again. After a failed sync only a reboot shows what is there."""
        self._broken = None
        self.disk.clear_faults()
        self.disk.capacity_bytes = None
        self._is_durable = self._may_have_failed_sync or self.random.random() < 0.5
        self._crash(has_power=not self._is_durable)
