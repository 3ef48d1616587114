"""Python clients side by side on one broker: each job in a process of its own, so that memory and imports are its own.

`python -m benchmarks.rivals.clients JOB` runs one job. A module here is one client, and has a function for each kind of
job; all of them do the same in the words of their client.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

TIMEOUT_S = 300.0
OURS = "ours"
OURS_ASYNC = "ours_async"
ARROW = "arrow"
CONFLUENT = "confluent"
AIOKAFKA = "aio"
KAFKA_PYTHON = "kafka_py"
NAMES = {
    OURS: "Ottla",
    OURS_ASYNC: "Ottla, async",
    ARROW: "Ottla, Arrow",
    CONFLUENT: "confluent-kafka",
    AIOKAFKA: "aiokafka",
    KAFKA_PYTHON: "kafka-python",
}


@dataclass(frozen=True, slots=True)
class ClientJob:
    """What a client has to do."""

    kind: str
    """`produce`, `consume`, `round_trip` or `first_record`."""
    address: str
    topic: str
    partition_count: int
    record_count: int
    record_bytes: int
    codec: str = "none"
    held_count: int = 0
    """How many records the topic holds that is to be consumed: who is to read more begins again at its beginning."""


@dataclass(frozen=True, slots=True)
class ClientMeasured:
    """What came of it; the process's own figures come last."""

    wall_s: float
    record_count: int
    latencies_s: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    memory_bytes: int = 0
    """The largest that the process was."""
    import_s: float = 0.0
    first_record_s: float = 0.0

    @property
    def per_s(self) -> float:
        return self.record_count / self.wall_s

    def percentile_s(self, percent: float) -> float:
        ordered = sorted(self.latencies_s)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


JobFunction = Callable[[ClientJob], ClientMeasured]


def run_client(client: str, job: ClientJob) -> ClientMeasured:
    """Run `job` with a client in a new process."""
    command = [sys.executable, "-m", "benchmarks.rivals.clients", client, json.dumps(asdict(job))]
    # Compiled modules are kept, as an installed client's are: otherwise ours alone would be compiled every time.
    kept = {"PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "ottla-bench-pycache")}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | kept
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=TIMEOUT_S, env=environment)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return ClientMeasured(**told)
