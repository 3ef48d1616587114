"""Power cuts: every life of the node ends in one, at an operation of the disk or between two."""

from __future__ import annotations

from ottla.sim import CHANGES, Kind, Moment, SimulatedCrash
from tests.crash.crash_point import kind_of_traceback
from tests.crash.run import Run
from tests.crash.workload import Workload

ANYWHERE = "anywhere"
LOAD = "load"
BETWEEN = "between"

# Which operation a life is to end in, so that even the rare ones are hit often.
TARGETS = (
    ANYWHERE,
    LOAD,
    BETWEEN,
    "append",
    "roll",
    "flush",
    "chores",
    "checkpoint",
    "retention",
    "delete records",
    "truncate",
    "compaction",
    "create topic",
    "delete topic",
    "restart",
)
# What has to happen first for the operation to find something to do.
PREPARATIONS = {
    "compaction": ("append", "end transaction", "high watermark", "roll"),
    "retention": ("append", "high watermark", "roll"),
    "delete records": ("append", "high watermark"),
}
MOMENTS: tuple[Moment, ...] = ("before", "during", "after")


class PowerLoss(Run):
    command = "power"

    def _live(self) -> None:
        target = self.random.choice(TARGETS)
        try:
            manager = self._open()
            if target == LOAD:
                self._plan(self.random.choice((5, 30, 120)))
            manager.start()
            self.disk.clear_faults()
            self._work(self._judge(manager), target)
            self._note(BETWEEN, "between two operations")
        except SimulatedCrash as crash:
            self._note(kind_of_traceback(crash.__traceback__), str(crash))
        self._crash()
        self.disk.clear_faults()
        if self.random.random() < 0.15:
            self._damage()

    def _work(self, workload: Workload, target: str) -> None:
        """Go on for a while, then plan the crash for an operation of the target's kind."""
        for _ in range(self.random.choice((5, 30, 80))):
            workload = self._step(workload)
        if target in (LOAD, BETWEEN):
            return
        for _ in range(12):
            if target in PREPARATIONS:
                workload = self._step(workload, self.random.choice(PREPARATIONS[target]))
        self._plan({ANYWHERE: 300, "compaction": 60}.get(target) or self.random.choice((2, 6, 20)))
        for number in range(60):
            is_aimed = target != ANYWHERE and number % 2 == 0
            workload = self._step(workload, target if is_aimed else None)

    def _step(self, workload: Workload, name: str | None = None) -> Workload:
        workload.step(name)
        return self._restart(workload) if workload.wants_restart else workload

    def _plan(self, nth_max: int) -> None:
        kinds: tuple[Kind, ...] | None = self.random.choice((None, CHANGES, CHANGES, ("sync", "sync_dir", "rename")))
        self.disk.crash_at(self.random.randint(1, nth_max), kinds=kinds, moment=self.random.choice(MOMENTS))
