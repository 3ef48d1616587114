"""Kafka Streams 4.3.1, run to the end of its input: `run_streams(...)` for programs of ours that end by themselves.

A program takes a bootstrap address, an application id, a state directory, its own arguments and then settings; it
prints `SECONDS n`, which is how long it worked. Called by tests marked `java` and by benchmarks.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.kafka import streams_classpath
from tests.support.programs import java_program, run

SETTINGS = {
    "processing.guarantee": "at_least_once",
    "commit.interval.ms": "100",
    "consumer.auto.offset.reset": "earliest",
    # Every change goes on at once, and a result depends on the records only, never on what was fetched first.
    "statestore.cache.max.bytes": "0",
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": "0",
    "__emit.interval.ms.kstreams.windowed.aggregation__": "0",
    "max.task.idle.ms": "10000",
}
"""For exact results."""


def run_streams(
    source: Path,
    bootstrap: str,
    application: str,
    state: Path,
    *arguments: str,
    settings: dict[str, str] = SETTINGS,
    timeout: float = 100,
) -> float:
    """Run the program in `source` until it has read all there is; how many seconds that took."""
    command = java_program(source, streams_classpath())
    done = run(
        command,
        *(bootstrap, application, str(state)),
        *arguments,
        *(f"{name}={value}" for name, value in settings.items()),
        timeout=timeout,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return float(done.stdout.partition("SECONDS ")[2].split()[0])
