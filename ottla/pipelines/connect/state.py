"""What a running pipeline tells others about itself, and how they ask it to stop: a directory in the user's data home.

    <home>/<name>/lock        held while it runs, so that a pipeline runs once
    <home>/<name>/state.json  what it last said of itself, replaced as a whole
    <home>/<name>/stop        somebody asks it to stop
    <home>/<name>/failure.log all that was said when the last run failed
    <home>/<name>/sources.json of several sources: which of them each query reads, in the order of its checkpoint
    <home>/<name>/checkpoint  Spark's, unless the file names another place

Promises: who holds the lock is running and who does not is not, whatever the state file says: a lock goes with its
process, by kill -9 too. Nothing here imports Spark. Called by `runner` and by `ottla pipeline`.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from ottla.pipelines.connect.progress import Batch
    from ottla.pipelines.connect.spec import Pipeline

JVM_GONE_S = 30.0
"""How long a new run waits for the Java process of one that was killed, which ends when it finds its driver gone."""
LOOK_S = 0.1


@dataclass(slots=True)
class State:
    """What a pipeline says of itself."""

    name: str
    file: str
    pid: int
    started_s: float
    status: str = "starting"
    """`starting`, `running`, `stopping`, `stopped`, `done` or `failed`."""
    source: str = ""
    sink: str = ""
    batch: int | None = None
    records: int = 0
    bad: int | None = None
    """Bad records; None where Spark does not count them."""
    in_per_s: float = 0.0
    out_per_s: float = 0.0
    lag: int | None = None
    slot_lag_bytes: int | None = None
    """How much of a database's log its replication slot holds back; None without one."""
    batch_ms: int = 0
    updated_s: float = 0.0
    error: str | None = None
    jvm_pid: int | None = None
    jvm_born: str | None = None
    sinks: dict[str, SinkState] = field(default_factory=dict)
    """What each did, where they have names; above stands the sum, and the largest lag."""

    def add(self, batch: Batch, sink: str | None) -> None:
        """A micro-batch has ended, of the lone sink or of the one by this name."""
        self.slot_lag_bytes = batch.slot_lag_bytes
        if sink is None:
            _add(self, batch)
            return
        one = self.sinks.setdefault(sink, SinkState())
        _add(one, batch)
        every = list(self.sinks.values())
        self.records = sum(other.records for other in every)
        counted = [other.bad for other in every if other.bad is not None]
        self.bad = sum(counted) if counted else None
        lags = [other.lag for other in every if other.lag is not None]
        self.lag = max(lags) if lags else None
        if batch.records:
            self.batch, self.batch_ms = one.batch, one.batch_ms
            self.in_per_s = sum(other.in_per_s for other in every)
            self.out_per_s = sum(other.out_per_s for other in every)


@dataclass(slots=True)
class SinkState:
    """What one of several sinks did."""

    batch: int | None = None
    records: int = 0
    bad: int | None = None
    in_per_s: float = 0.0
    out_per_s: float = 0.0
    lag: int | None = None
    batch_ms: int = 0


def _add(to: State | SinkState, batch: Batch) -> None:
    """A micro-batch has ended."""
    to.lag = batch.lag
    if not batch.records:
        return
    to.batch = batch.id
    to.records += batch.records
    if batch.bad is not None:
        to.bad = (to.bad or 0) + batch.bad
    to.in_per_s, to.out_per_s, to.batch_ms = batch.in_per_s, batch.out_per_s, batch.took_ms


class NotRunning(PipelineError):
    """Nobody runs this pipeline."""


def data_home() -> Path:
    """`$XDG_DATA_HOME/ottla/pipelines`."""
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return Path(base) / "ottla" / "pipelines"


class Home:
    """The directory of one pipeline."""

    def __init__(self, name: str, base: Path | None = None) -> None:
        self.name = name
        self.path = (base or data_home()) / name
        self._lock = self.path / "lock"
        self._state = self.path / "state.json"
        self._stop = self.path / "stop"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def spool(self) -> Path:
        """Where a source `http` keeps what it has taken."""
        return self.path / "spool"

    def spool_of(self, pipeline: Pipeline, name: str) -> Path:
        """The spool of a source, unless the file names another place."""
        given = pipeline.sources[name].options.get("spool")
        if given is not None:
            return Path(given)
        return self.spool / name if pipeline.has_names else self.spool

    @property
    def failure(self) -> Path:
        """What the last run failed with: every traceback, and all that Spark said. Gone when the next one starts."""
        return self.path / "failure.log"

    @property
    def sources(self) -> Path:
        return self.path / "sources.json"

    def require_sources(self, queries: Mapping[str, Sequence[str]]) -> None:
        """Note which sources each query reads; `PipelineError` when one reads others than its checkpoint has.

        Spark knows the sources of a checkpoint by their order only, and would take the offsets of one for another's.
        """
        try:
            known = json.loads(self.sources.read_text(encoding="utf-8"))
        except FileNotFoundError:
            known = {}
        for query, now in queries.items():
            before = known.get(query, list(now))
            if before != list(now):
                raise PipelineError(
                    f"{query} was made of {', '.join(before)} so far, and is of {', '.join(now)} now, which its "
                    f"checkpoint does not fit: `ottla pipeline reset {self.name}` begins anew, and another name for "
                    "the sink begins only that one anew"
                )
        new = self.sources.with_suffix(".new")
        new.write_text(json.dumps({**known, **{query: list(now) for query, now in queries.items()}}), encoding="utf-8")
        os.replace(new, self.sources)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run alone; `PipelineError` when somebody else does."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self._lock, "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                state = self.read()
                pid = f" (pid {state.pid})" if state else ""
                raise PipelineError(
                    f"the pipeline {self.name} runs already{pid}: `ottla pipeline stop {self.name}` ends it"
                ) from None
            self._wait_for_the_last_jvm()
            self._stop.unlink(missing_ok=True)
            yield

    @property
    def is_running(self) -> bool:
        try:
            with open(self._lock) as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return False
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True

    def read(self) -> State | None:
        """What the pipeline last said; a status that only a running one has becomes `killed` when it is not."""
        try:
            told = json.loads(self._state.read_text(encoding="utf-8"))
            sinks = {name: SinkState(**one) for name, one in told.pop("sinks", {}).items()}
            state = State(**told, sinks=sinks)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, AttributeError) as error:
            raise PipelineError(f"{self._state} is damaged: {error}. Remove it; the checkpoint is elsewhere") from None
        if state.status in ("starting", "running", "stopping") and not self.is_running:
            state.status = "killed"
        return state

    def write(self, state: State) -> None:
        state.updated_s = time.time()
        new = self._state.with_suffix(".new")
        new.write_text(json.dumps(asdict(state)), encoding="utf-8")
        os.replace(new, self._state)

    def ask_to_stop(self) -> None:
        """`NotRunning` when there is nobody to ask."""
        if not self.is_running:
            raise NotRunning(f"the pipeline {self.name} does not run")
        self._stop.touch()

    @property
    def is_asked_to_stop(self) -> bool:
        return self._stop.exists()

    def _wait_for_the_last_jvm(self) -> None:
        """A driver that was killed leaves its Java process for a moment; two must not write by one checkpoint."""
        state = self.read()
        if state is None or state.jvm_pid is None:
            return
        deadline = time.monotonic() + JVM_GONE_S
        while born(state.jvm_pid) == state.jvm_born is not None:
            if time.monotonic() > deadline:
                raise PipelineError(f"the Java process of the last run of {self.name} is still there: {state.jvm_pid}")
            time.sleep(LOOK_S)


def homes(base: Path | None = None) -> list[Home]:
    """Every pipeline that was ever run here, by name."""
    base = base or data_home()
    if not base.is_dir():
        return []
    return [Home(path.name, base) for path in sorted(base.iterdir()) if (path / "state.json").exists()]


def born(pid: int) -> str | None:
    """When a process was started, in ticks, so that a number that is used again is not taken for it.

    None when there is no such process, or where the system does not tell.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in parentheses may hold anything; the state that follows is Z once only the parent's note is left.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]
