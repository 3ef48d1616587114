"""The client that must not notice: it asks all the time, and remembers how long each answer took.

It has had an answer before the body begins: who comes after an attack may have to wait for a place, and how long that
takes is not what is measured. Nor is how long a thread had to wait for a processor: that is the machine's other work.
Beside it the broker's memory is watched. `with watched(server) as probe: attack()` raises afterwards when a request
went unanswered, one took too long, or the process has grown beyond the bound. Called by tests.
"""

from __future__ import annotations

import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.wire.frames import read_response, write_request
from ottla.wire.messages.header import RequestHeader
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.server import METADATA_KEY, METADATA_VERSION, Server

PERIOD_S = 0.005
ANSWER_S_MAX = 10.0
SLOWEST_S_MAX = 1.0
MEDIAN_S_MAX = 0.15
ASKED_MIN = 10


class Probe:
    """One connection that asks for Metadata, and a thread that waits for each answer."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._is_over = threading.Event()
        self._is_served = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe")
        self.latencies: list[float] = []
        self.failure: str | None = None
        self.resident_before = resident_bytes(server.pid)
        self.resident_peak = self.resident_before

    def start(self) -> None:
        """Return when the server has answered once, or will not."""
        self._thread.start()
        assert self._is_served.wait(ANSWER_S_MAX), "the probe is not answered"

    def stop(self) -> None:
        deadline = time.monotonic() + ANSWER_S_MAX
        while len(self.latencies) < ASKED_MIN and self.failure is None and time.monotonic() < deadline:
            time.sleep(0.01)
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        clock = UnloadedClock(self._server.pid, threading.get_native_id())
        frame = write_request(RequestHeader(METADATA_KEY, METADATA_VERSION, 7, "probe"), MetadataRequest(topics=[]))
        try:
            with (
                socket.create_connection(("127.0.0.1", self._server.port), ANSWER_S_MAX) as sock,
                sock.makefile("rb") as stream,
            ):
                while not self._is_over.wait(PERIOD_S):
                    begun = clock.now_s()
                    sock.sendall(frame)
                    (size,) = struct.unpack(">i", stream.read(4))
                    answer = read_response(stream.read(size), METADATA_KEY, METADATA_VERSION).body
                    if self._is_served.is_set():
                        self.latencies.append(clock.now_s() - begun)
                    assert isinstance(answer, MetadataResponse), answer
                    assert answer.brokers, "no broker in the answer"
                    self.resident_peak = max(self.resident_peak, resident_bytes(self._server.pid))
                    self._is_served.set()
        except (OSError, struct.error, AssertionError) as error:
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            self._is_served.set()


@contextmanager
def watched(server: Server, *, growth_max: int) -> Iterator[Probe]:
    """Ask while the body runs; then hold what was seen against the bounds."""
    probe = Probe(server)
    probe.start()
    try:
        yield probe
    finally:
        probe.stop()
    assert probe.failure is None, f"{probe.failure}\n{server.log_tail()}"
    median, slowest = statistics.median(probe.latencies), max(probe.latencies)
    growth = probe.resident_peak - probe.resident_before
    print(f"{len(probe.latencies)} answers, median {median * 1e3:.1f} ms, slowest {slowest * 1e3:.0f} ms, "
          f"memory +{growth / 1e6:.1f} MB")  # fmt: skip
    assert median < MEDIAN_S_MAX
    assert slowest < SLOWEST_S_MAX
    assert growth < growth_max, f"{growth / 1e6:.0f} MB more than before"


class UnloadedClock:
    """Time, but for what some threads spent in the queue of those that could run: it stands while they wait."""

    def __init__(self, *thread_ids: int) -> None:
        self._paths = [Path(f"/proc/{thread_id}/schedstat") for thread_id in thread_ids]

    def now_s(self) -> float:
        return time.monotonic() - sum(int(path.read_text().split()[1]) for path in self._paths) / 1e9


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/{pid}/status has no VmRSS")
