"""What a benchmark is made of: a registered function, what it measures with, the figure it returns, the bar it has.

Promises: two things that are compared are timed in one run, in turns, so that a noisy machine disturbs both alike;
every figure is kept in its base unit (seconds, bytes, counts a second) and gets its prefix only when it is printed; a
bar is judged against the ratio to a rival, or against the figure itself when the bar names a unit.

Called by the `bench_*.py` modules, which import it through the package, and by `__main__`, which runs them.
"""

from __future__ import annotations

import enum
import gc
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

DISK_VARIABLE = "OTTLA_BENCH_DIR"
"""The environment variable that says where benchmarks keep their files."""

_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "rootfs"})


class Unit(enum.Enum):
    """What a figure counts, and which way is better."""

    SECONDS = ("s", False)
    SECONDS_PER_GB = ("s/GB", False)
    BYTES = ("B", False)
    COUNT = ("", False)
    PER_SECOND = ("/s", True)
    BYTES_PER_SECOND = ("B/s", True)

    def __init__(self, symbol: str, higher_is_better: bool) -> None:
        self.symbol = symbol
        self.higher_is_better = higher_is_better

    def format(self, figure: float) -> str:
        """Three significant digits and the prefix that suits: `15.2 µs`, `1.23 GB/s`, `4.56 M/s`."""
        scale, prefix = next(
            ((scale, prefix) for scale, prefix in _PREFIXES[self] if abs(figure) >= scale), _PREFIXES[self][-1]
        )
        digits = _significant(figure / scale)
        unit = prefix + self.symbol
        return f"{digits} {unit}" if unit else digits


_SMALL = [(1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")]
_LARGE = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")]
_PREFIXES: dict[Unit, list[tuple[float, str]]] = {
    Unit.SECONDS: _SMALL,
    Unit.SECONDS_PER_GB: _SMALL,
    Unit.BYTES: _LARGE,
    Unit.COUNT: [(1.0, "")],
    Unit.PER_SECOND: _LARGE,
    Unit.BYTES_PER_SECOND: _LARGE,
}


def _significant(value: float) -> str:
    value = float(f"{value:.9g}")  # 15e-6 / 1e-6 is 15 to a reader
    if value == int(value) and abs(value) < 1000:
        return str(int(value))
    decimals = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{decimals}f}"


@dataclass(frozen=True, slots=True)
class Rival:
    """What ours was measured against, in the same run."""

    name: str
    figure: float


@dataclass(frozen=True, slots=True)
class Result:
    """What a benchmark found. `note` is one line that a reader of the table should know.

    `no_rival` says why there was nothing to compare with on this machine: a bar that is a ratio is then not judged.
    """

    figure: float
    unit: Unit
    rival: Rival | None = None
    note: str = ""
    no_rival: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours / theirs; whether more or less is better follows from the unit."""
        return None if self.rival is None else self.figure / self.rival.figure


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Met by a ratio, or with a unit by a figure, that is no smaller."""

    limit: float
    unit: Unit | None = None

    def allows(self, value: float) -> bool:
        return value >= self.limit

    def __str__(self) -> str:
        return ">= " + _limit(self.limit, self.unit)


@dataclass(frozen=True, slots=True)
class AtMost:
    """Met by a ratio, or with a unit by a figure, that is no larger."""

    limit: float
    unit: Unit | None = None

    def allows(self, value: float) -> bool:
        return value <= self.limit

    def __str__(self) -> str:
        return "<= " + _limit(self.limit, self.unit)


Bar = AtLeast | AtMost


def _limit(limit: float, unit: Unit | None) -> str:
    return f"{limit:g} x" if unit is None else unit.format(limit)


def is_met(bar: Bar, result: Result) -> bool | None:
    """Judge a result, or None where its rival is missing on this machine.

    `ValueError` when the bar asks for something that the result does not hold.
    """
    if bar.unit is None:
        if result.ratio is None:
            if result.no_rival:
                return None
            raise ValueError(f"the bar {bar} is a ratio, and the result has no rival")
        return bar.allows(result.ratio)
    if bar.unit is not result.unit:
        raise ValueError(f"the bar is in {bar.unit.name} and the result in {result.unit.name}")
    return bar.allows(result.figure)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A registered function: where it belongs, what it measures, how to run it."""

    area: str
    name: str
    what: str
    bar: Bar | None
    run: Callable[[Bench], Result]

    @property
    def title(self) -> str:
        return f"{self.area}: {self.name}"


def benchmark(
    area: str, name: str, *, bar: Bar | None = None, what: str = ""
) -> Callable[[Callable[[Bench], Result]], Benchmark]:
    """Make a benchmark of a function; the first line of its docstring says what it measures, unless `what` does."""

    def register(run: Callable[[Bench], Result]) -> Benchmark:
        measured = what or (run.__doc__ or "").strip().partition("\n")[0]
        if not measured:
            raise ValueError(f"{area}: {name} does not say what it measures: give it a docstring")
        return Benchmark(area, name, measured, bar, run)

    return register


@dataclass(frozen=True, slots=True)
class Timing:
    """The samples of one piece of work, in seconds, one a round.

    CPU time is that of the whole process, the kernel's share included; `kernel_s` is that share alone.
    """

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    kernel_s: list[float] = field(default_factory=list)

    @property
    def best_s(self) -> float:
        """The least disturbed round, by the wall clock."""
        return min(self.wall_s)

    @property
    def median_s(self) -> float:
        return statistics.median(self.wall_s)

    @property
    def best_cpu_s(self) -> float:
        return min(self.cpu_s)

    @property
    def median_cpu_s(self) -> float:
        return statistics.median(self.cpu_s)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two pieces of work timed in turns."""

    ours: Timing
    theirs: Timing

    def rate(self, amount: float, unit: Unit, *, rival: str, note: str = "") -> Result:
        """`amount` done a second by the best round of each: bytes or records, as `unit` says."""
        return Result(amount / self.ours.best_s, unit, Rival(rival, amount / self.theirs.best_s), note)

    def each(self, count: int, *, rival: str, cpu: bool = False, note: str = "") -> Result:
        """Seconds for one of `count` alike steps, in the best round of each; with `cpu` of CPU time."""
        ours, theirs = (side.best_cpu_s if cpu else side.best_s for side in (self.ours, self.theirs))
        return Result(ours / count, Unit.SECONDS, Rival(rival, theirs / count), note)


class Bench:
    """What a benchmark measures with: timing, sizes, a place on a real disk."""

    def __init__(self, *, quick: bool = False) -> None:
        self.quick = quick
        self._dirs: list[str] = []

    def pick(self, full: T, quick: T) -> T:
        """The size to measure with: `full`, or a `quick` one that only proves that the benchmark works."""
        return quick if self.quick else full

    def measure(
        self, work: Callable[[], object], *, rounds: int = 5, before: Callable[[], object] | None = None
    ) -> Timing:
        """Time `work`, `rounds` times after one round that does not count; `before` runs untimed ahead of each."""
        timing = Timing()
        self._sample(work, before, Timing())
        for _ in range(self.pick(rounds, 1)):
            self._sample(work, before, timing)
        return timing

    def compare(
        self,
        ours: Callable[[], object],
        theirs: Callable[[], object],
        *,
        rounds: int = 7,
        before: Callable[[], object] | None = None,
    ) -> Comparison:
        """Time two pieces of work in turns, after one round that does not count.

        Who goes first changes every round, so that neither always pays for what the other left behind (dirty pages, a
        warm cache). `before` runs untimed ahead of each sample of either.
        """
        comparison = Comparison(Timing(), Timing())
        turns = [(ours, comparison.ours), (theirs, comparison.theirs)]
        for work, _ in turns:
            self._sample(work, before, Timing())
        for _ in range(self.pick(rounds, 1)):
            for work, timing in turns:
                self._sample(work, before, timing)
            turns.reverse()
        return comparison

    def temp_dir(self) -> str:
        """A new empty directory on a device, not in memory; it is removed when the benchmark ends."""
        path = tempfile.mkdtemp(prefix="ottla-bench-", dir=real_disk(any_will_do=self.quick))
        self._dirs.append(path)
        return path

    def close(self) -> None:
        """Remove what `temp_dir` gave."""
        while self._dirs:
            shutil.rmtree(self._dirs.pop())

    def _sample(self, work: Callable[[], object], before: Callable[[], object] | None, timing: Timing) -> None:
        if before is not None:
            before()
        gc.collect()  # one side must not pay for the other's garbage
        kernel = _kernel_s()
        cpu = time.process_time()
        wall = time.perf_counter()
        work()
        timing.wall_s.append(time.perf_counter() - wall)
        timing.cpu_s.append(time.process_time() - cpu)
        timing.kernel_s.append(_kernel_s() - kernel)


@contextmanager
def opened(*, quick: bool) -> Iterator[Bench]:
    """A `Bench` whose directories are gone afterwards, whatever happened."""
    bench = Bench(quick=quick)
    try:
        yield bench
    finally:
        bench.close()


def real_disk(*, any_will_do: bool = False) -> str:
    """A directory whose files reach a device: what `OTTLA_BENCH_DIR` names, the system's or the project's own.

    A file system in memory would flatter every write, so `OSError` where only that is found; a quick run, whose
    figures mean nothing, takes `any_will_do`.
    """
    named = os.environ.get(DISK_VARIABLE)
    candidates = [named] if named else [tempfile.gettempdir(), str(Path(__file__).parent)]
    for path in candidates:
        if file_system(path) not in _IN_MEMORY:
            return path
    if any_will_do:
        return candidates[0]
    raise OSError(f"only file systems in memory found; let {DISK_VARIABLE} name a directory on a disk")


def file_system(path: str) -> str:
    """The type of the file system that holds `path`, such as `ext4`; empty where the system does not tell."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""  # not Linux: nothing is known, and nothing is refused
    real = os.path.realpath(path)
    found = ("", "")
    for line in mounts:
        _, mount, kind, *_ = line.split(" ")
        mount = mount.replace("\\040", " ")
        inside = real == mount or real.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(found[0]):  # a later mount on the same place hides the earlier
            found = (mount, kind)
    return found[1]


def _kernel_s() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime
