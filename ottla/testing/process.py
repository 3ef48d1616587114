"""A node in a process of its own: slower to start than a thread, as far from the test as a real one."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from typing import Any

from ottla.testing.errors import ClusterError
from ottla.testing.host import Orders

ANSWER_TIMEOUT_S = 60.0
LOG_LINES = 20


class ProcessNode:
    """A `NodeUnderTest`. Its log is in a file beside its data."""

    def __init__(self, name: str, host: str, directory: str) -> None:
        """`directory` is the cluster's, which the process removes if it is left alone."""
        self._name = name
        self._host_name = host
        self._directory = directory
        self._log_path = f"{directory}/{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = b""
        self._is_ready = False
        self.is_paused = False
        self._port = 0
        self._ahead_ms = 0

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    @property
    def address(self) -> str:
        return f"{self._host_name}:{self._port}"

    def begin(self, orders: Orders) -> None:
        assert self._process is None, "it runs already"
        self._answers = b""
        self._is_ready = False
        with open(self._log_path, "ab") as log:
            # A session of its own: Ctrl-C at the terminal is the test's to handle.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla.testing.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._write(json.dumps({**asdict(orders), "ahead_ms": self._ahead_ms, "directory": self._directory}))

    def is_ready(self, timeout_s: float) -> bool:
        if not self._is_ready and self._has_answer(timeout_s):
            self._port = self._take_answer()["port"]
            self._is_ready = True
        return self._is_ready

    def stop(self) -> None:
        try:
            self._write("stop")
            self._read(ANSWER_TIMEOUT_S)
            assert self._process is not None, "it runs"
            self._process.wait(ANSWER_TIMEOUT_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """kill -9."""
        if self._process is None:
            return
        process, self._process = self._process, None
        self.is_paused = False
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None, "both were asked for"
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # it died before it had read all that it was told

    def pause(self) -> None:
        assert self._process is not None, "it does not run"
        self._process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        assert self._process is not None, "it does not run"
        self._process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def ask(self, command: str, *arguments: Any) -> Any:
        self._write(json.dumps([command, *arguments]))
        answer = self._read(ANSWER_TIMEOUT_S)["answer"]
        if command == "move_time":
            self._ahead_ms = answer
        return answer

    def _write(self, line: str) -> None:
        assert self._process is not None, "it does not run"
        assert self._process.stdin is not None, "it was asked for"
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None

    def _read(self, timeout_s: float) -> dict[str, Any]:
        """The next answer; what the node says went wrong is raised."""
        if not self._has_answer(timeout_s):
            raise ClusterError(f"{self._name} has not answered within {timeout_s:g} s.{self._log_tail()}")
        return self._take_answer()

    def _has_answer(self, timeout_s: float) -> bool:
        """Whether there is one by the end of that time."""
        assert self._process is not None, "it does not run"
        assert self._process.stdout is not None, "it was asked for"
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._answers:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return False
                data = os.read(self._process.stdout.fileno(), 65536)
                if not data:
                    raise self._gone()
                self._answers += data
        return True

    def _take_answer(self) -> dict[str, Any]:
        line, _, self._answers = self._answers.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ClusterError(answer["error"])
        return answer

    def _gone(self) -> ClusterError:
        return ClusterError(f"the process of {self._name} has ended.{self._log_tail()}")

    def _log_tail(self) -> str:
        with open(self._log_path, encoding="utf-8", errors="replace") as log:
            lines = log.read().splitlines()[-LOG_LINES:]
        return " Its last words:\n" + "\n".join(lines) if lines else ""
