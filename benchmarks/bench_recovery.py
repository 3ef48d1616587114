"""A start after kill -9: how long clients wait when nothing of the log was flushed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from confluent_kafka import Producer

from benchmarks import AtMost, Bench, Result, Unit, benchmark
from benchmarks.rivals.server import Server, ottla_kind

UNFLUSHED_BYTES = 100_000_000
VALUE_SIZE = 1000
ROUNDS = 5
FLUSH_S = 60.0
IN_FLIGHT_MAX = 50_000


@benchmark("broker", "time to ready after kill -9, 100 MB unflushed", bar=AtMost(1.0, Unit.SECONDS))
def restart(bench: Bench) -> Result:
    """From the start of the process to the first Metadata response that names a broker; best of five."""
    directory = Path(bench.temp_dir())
    data, killed = directory / "data", directory / "killed"
    with Server(ottla_kind(), directory) as server:
        server.start()
        _fill(server.address, bench.pick(UNFLUSHED_BYTES, 1_000_000))
        server.kill()
        data.rename(killed)
        seconds = []
        for _ in range(bench.pick(ROUNDS, 1)):
            # A start writes snapshots and checkpoints; each one shall find what the kill left.
            shutil.copytree(killed, data)
            seconds.append(server.start())
            server.kill()
            shutil.rmtree(data)
    return Result(min(seconds), Unit.SECONDS, note=f"the slowest of {len(seconds)} took {max(seconds):.2f} s")


def _fill(address: str, size: int) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "batch.size": 500_000, "log_level": 2})
    value = os.urandom(VALUE_SIZE)
    for _ in range(size // VALUE_SIZE):
        while len(producer) > IN_FLIGHT_MAX:
            producer.poll(0.01)
        producer.produce("big", value)
    if producer.flush(FLUSH_S):
        raise RuntimeError("the broker did not acknowledge everything")
