"""A running broker for tests: `ottla up` in a process of its own, on a free port, gone afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

READY_S = 20.0
STOP_S = 20.0


class BrokerProcess:
    """One node as a child process. `with BrokerProcess(tmp_path) as broker: ... broker.address`"""

    def __init__(
        self, directory: Path, *, topics: Sequence[str] = (), settings: dict[str, str] | None = None, port: int = 0
    ) -> None:
        self.directory = directory
        self._topics = topics
        self._settings = settings or {}
        self.port = port
        self.address = ""
        self.process: subprocess.Popen[bytes] | None = None
        self.log_path = directory / "broker.log"
        self.data = {1: directory / "data"}

    @property
    def addresses(self) -> dict[int, str]:
        return {1: self.address}

    def start(self) -> None:
        """Return when clients can connect; raises with the log's end when that takes too long."""
        self.directory.mkdir(parents=True, exist_ok=True)
        ready = self.directory / "ready"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "ottla.cli.main", "up", "--port", str(self.port), "--ready-file", str(ready),
                   "--data", str(self.directory / "data"), "--log-level", "INFO"]  # fmt: skip
        for topic in self._topics:
            command += ["--topic", topic]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + READY_S
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the broker did not start:\n{self.log_tail()}")
            time.sleep(0.01)
        self.address = ready.read_text().strip()
        # The same port again after a restart: clients come back to where they were.
        self.port = int(self.address.rpartition(":")[2])

    def stop(self) -> None:
        """A controlled shutdown; raises when it is not an orderly one."""
        assert self.process is not None, "not started"
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(STOP_S) == 0, self.log_tail()
        self.process = None

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None, "not started"
        self.process.kill()
        self.process.wait()
        self.process = None

    @property
    def pid(self) -> int:
        assert self.process is not None, "not started"
        return self.process.pid

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.log().splitlines()[-lines:])

    def errors(self) -> list[str]:
        """ERROR and FATAL lines, which a healthy broker has none of."""
        return [line for line in self.log().splitlines() if "] ERROR " in line or "] FATAL " in line]

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
