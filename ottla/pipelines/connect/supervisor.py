"""Keeps pipelines in their target states: each is a process as `ottla pipeline run` starts it.

Promises: a run is a session of its own, so it survives the supervisor, and the next one finds it by its lock. What is
to run and does not is started; what is not to run is asked to stop after its micro-batch. A pipeline that has failed is
started again as its `restart` says, and else left for somebody to look at. One that has come to its end, or that was
stopped by `ottla pipeline stop`, is STOPPED. Called by `ottla pipeline serve`.
"""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ottla.pipelines.connect import deployment
from ottla.pipelines.connect.deployment import Deployment, Target
from ottla.pipelines.connect.restart import Restart, Restarts
from ottla.pipelines.connect.spec import Pipeline, load
from ottla.pipelines.connect.state import Home, NotRunning, data_home
from ottla.pipelines.errors import PipelineError

log = logging.getLogger(__name__)

LOOK_S = 0.5
LOG_BYTES_MAX = 16 << 20
"""Of what a run writes to its log; then the log begins anew."""
TRACE_BYTES_MAX = 64 << 10


class NoSuchPipeline(PipelineError):
    """No pipeline of this name is served."""


class AlreadyThere(PipelineError):
    """A pipeline of this name is served."""


@dataclass(slots=True)
class _Entry:
    deployment: Deployment
    is_due: bool
    """Somebody wants it to run: it is started when it does not."""
    process: subprocess.Popen[bytes] | None = None
    is_restarting: bool = False
    """It is to stop, to be started again."""
    restarts: Restarts = field(default_factory=Restarts)
    restart_at_s: float | None = None
    exit_code: int | None = None
    is_failed: bool = False
    """It has failed, and is not started again by itself."""

    @property
    def home(self) -> Home:
        return self.deployment.home

    @property
    def is_alive(self) -> bool:
        if self.process is not None:
            self.exit_code = self.process.poll()
            if self.exit_code is None:
                return True
            self.process = None
        return self.home.is_running


@dataclass(frozen=True, slots=True)
class Status:
    """How a pipeline does, in Kafka Connect's words: RUNNING, PAUSED, STOPPED, FAILED, RESTARTING or UNASSIGNED."""

    state: str
    trace: str | None = None


class Supervisor:
    """The pipelines that are served. Its methods may be called from any thread."""

    def __init__(
        self,
        base: Path | None = None,
        *,
        arguments: Sequence[str] = (),
        command: Callable[[Path], Sequence[str]] | None = None,
    ) -> None:
        self._base = base or data_home()
        self._arguments = list(arguments)
        self._command = command or self._run_command
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._entries = {one.name: self._entry(one) for one in deployment.deployments(self._base)}
        self._leaving: list[_Entry] = []
        """Pipelines that are not served any more, until they have stopped."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Look after the pipelines, alone among supervisors; when it ends, they go on."""
        self._base.mkdir(parents=True, exist_ok=True)
        with open(self._base / "serve.lock", "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PipelineError(f"another `ottla pipeline serve` looks after {self._base} already") from None
            thread = threading.Thread(target=self._run, name="pipelines", daemon=True)
            thread.start()
            try:
                yield
            finally:
                self._closed.set()
                thread.join()
                for entry in [*self._entries.values(), *self._leaving]:
                    if entry.is_alive and entry.process is not None:
                        entry.process.returncode = 0  # nobody waits for it any more: without this Python warns of it

    def add_file(self, file: Path) -> None:
        """Serve the pipeline of a file that somebody keeps."""
        with self._lock:
            one = deployment.of_file(file, self._base)
            self._entries[one.name] = self._entry(one)

    def names(self) -> list[str]:
        with self._lock:
            return list(self._entries)

    def create(self, config: Mapping[str, Any], target: Target) -> None:
        """Serve a new pipeline; `AlreadyThere`, or `SpecError` with what is wrong with it."""
        with self._lock:
            if config.get("name") in self._entries:
                raise AlreadyThere(f"Connector {config['name']} already exists")
            one = deployment.of_config(config, target, self._base)
            self._entries[one.name] = self._entry(one)
            self._tick(self._entries[one.name])

    def change(self, name: str, config: Mapping[str, Any]) -> bool:
        """Give a pipeline another configuration, and start it again with it; False where there was none."""
        with self._lock:
            if name not in self._entries:
                self.create(config, Target.RUNNING)
                return False
            entry = self._entries[name]
            if not entry.deployment.is_by_rest:
                raise AlreadyThere(
                    f"Connector {name} is described by {entry.deployment.file}: change that and restart it"
                )
            entry.deployment = deployment.of_config(config, entry.deployment.target, self._base)
            self._restart(entry)
            return True

    def deployed(self, name: str) -> Deployment:
        return self._of(name).deployment

    def pipeline(self, name: str) -> Pipeline:
        """What the file describes now; `SpecError` where it is not right any more."""
        return load(self._of(name).deployment.file)

    def status(self, name: str) -> Status:
        with self._lock:
            entry = self._of(name)
            is_alive, state, target = entry.is_alive, entry.home.read(), entry.deployment.target
            if is_alive:
                if entry.is_restarting:
                    return Status("RESTARTING")
                is_up = state is not None and entry.home.is_running and state.status in ("running", "stopping")
                return Status("RUNNING" if is_up else "UNASSIGNED")
            if target is not Target.RUNNING:
                return Status(target.value)
            return Status("UNASSIGNED") if entry.is_due else Status("FAILED", self._trace(entry))

    def set_target(self, name: str, target: Target) -> None:
        """Pause, resume or stop a pipeline; nothing where it is so already."""
        with self._lock:
            entry = self._of(name)
            if entry.deployment.target is target:
                return
            self._set_target(entry, target)
            entry.is_due, entry.is_restarting = target is Target.RUNNING, False
            entry.restarts.forget()
            self._tick(entry)

    def restart(self, name: str, *, only_failed: bool = False) -> None:
        """Start a pipeline again that is to run."""
        with self._lock:
            entry = self._of(name)
            if not only_failed or self.status(name).state == "FAILED":
                self._restart(entry)

    def remove(self, name: str) -> None:
        """Stop serving a pipeline, and have it stop."""
        with self._lock:
            entry = self._of(name)
            entry.deployment.remove()
            del self._entries[name]
            entry.deployment = replace(entry.deployment, target=Target.STOPPED)
            self._leaving.append(entry)
            self._tick(entry)

    def _of(self, name: str) -> _Entry:
        with self._lock:
            if name not in self._entries:
                raise NoSuchPipeline(f"Connector {name} not found")
            return self._entries[name]

    def _entry(self, one: Deployment) -> _Entry:
        state = one.home.read()
        is_done = state is not None and state.status == "done"
        return _Entry(one, is_due=one.target is Target.RUNNING and not is_done)

    def _restart(self, entry: _Entry) -> None:
        if entry.deployment.target is not Target.RUNNING:
            return
        entry.restarts.forget()
        entry.restart_at_s = None
        entry.is_due, entry.is_restarting = True, entry.is_alive
        self._tick(entry)

    def _set_target(self, entry: _Entry, target: Target) -> None:
        entry.deployment = replace(entry.deployment, target=target)
        entry.deployment.write()

    def _run(self) -> None:
        while not self._closed.wait(LOOK_S):
            with self._lock:
                self._leaving = [entry for entry in self._leaving if entry.is_alive]
                for entry in [*self._entries.values(), *self._leaving]:
                    try:
                        self._tick(entry)
                    except (OSError, PipelineError) as error:
                        log.error("[Pipeline %s] cannot be looked after: %s", entry.deployment.name, error)

    def _tick(self, entry: _Entry) -> None:
        """One look at one pipeline."""
        if entry.is_alive:
            if entry.is_restarting or entry.deployment.target is not Target.RUNNING:
                self._stop(entry)  # each time: a run that has just begun forgets what it was asked before
            self._bound_log(entry)
            return
        if entry.deployment.target is not Target.RUNNING:
            return
        if entry.is_due:
            self._start(entry)
        elif entry.is_failed:
            return
        elif entry.restart_at_s is not None:
            if time.monotonic() >= entry.restart_at_s:
                entry.restarts.note(time.monotonic())
                self._start(entry)
        else:
            self._ended(entry)

    def _ended(self, entry: _Entry) -> None:
        """A run has ended, and nobody here has asked it to."""
        state = entry.home.read()
        if entry.exit_code in (None, 0) and state is not None and state.status in ("done", "stopped"):
            log.info("[Pipeline %s] has ended: %s", entry.deployment.name, state.status)
            self._set_target(entry, Target.STOPPED)
            return
        try:
            policy = load(entry.deployment.file).restart
        except PipelineError:
            policy = Restart()  # its file is not right any more, which a restart would find as well
        wait_s = entry.restarts.wait_s(policy, time.monotonic())
        if wait_s is None:
            log.error("[Pipeline %s] has failed", entry.deployment.name)
            entry.is_failed = True
            return
        log.warning("[Pipeline %s] has failed and is started again in %.0f s", entry.deployment.name, wait_s)
        entry.restart_at_s = time.monotonic() + wait_s

    def _start(self, entry: _Entry) -> None:
        entry.is_due = entry.is_restarting = entry.is_failed = False
        entry.restart_at_s = entry.exit_code = None
        log.info("[Pipeline %s] is started", entry.deployment.name)
        with open(_log_of(entry), "wb"):
            pass  # the last run's is gone
        with open(_log_of(entry), "ab") as output:  # so that it can be cut while it is written
            entry.process = subprocess.Popen(
                self._command(entry.deployment.file), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip

    def _run_command(self, file: Path) -> list[str]:
        return [sys.executable, "-m", "ottla.cli.main", "pipeline", "run", str(file), "--quiet", *self._arguments]

    def _stop(self, entry: _Entry) -> None:
        try:
            entry.home.ask_to_stop()
        except NotRunning:
            if entry.process is not None:  # it has not come to its lock yet
                entry.process.terminate()

    def _bound_log(self, entry: _Entry) -> None:
        path = _log_of(entry)
        if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
            os.truncate(path, 0)

    def _trace(self, entry: _Entry) -> str:
        """All that was said of a failure, as far as there is room."""
        for path in (entry.home.failure, _log_of(entry)):
            if path.exists():
                return path.read_bytes()[-TRACE_BYTES_MAX:].decode("utf-8", "replace")
        return "the run has ended without a word"


def _log_of(entry: _Entry) -> Path:
    return entry.home.path / "run.log"
