"""What the tests of every client share: names, sizes, patience, and what a broker's log may say afterwards."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.broker import BrokerProcess
from tests.support.nodes import NODE_COUNT, NODE_IDS, Brokers, Nodes

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PATIENCE_S = 20.0
BROKER_SETTINGS = {
    # Retention is looked at often, so that a topic whose setting has changed shows it within a test.
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "100",
}
REPEATS_MAX = 2

_numbers = itertools.count()


def new_topic(stem: str) -> str:
    """A topic name that no other test of this process uses."""
    return f"{stem}-{next(_numbers)}"


def eventually(claim: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Wait until `claim` holds."""
    deadline = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.05)


@contextmanager
def healthy_broker(directory: Path, settings: dict[str, str] | None = None) -> Iterator[Brokers]:
    """A broker, or several, that must have nothing to complain about: no ERROR line, no warning again and again."""
    settings = {**BROKER_SETTINGS, **(settings or {})}
    if NODE_COUNT > 1:
        with Nodes(directory, settings=settings, count=NODE_COUNT) as nodes:
            yield nodes
            warnings = {number: repeated_warnings(log) for number, log in nodes.logs().items()}
        assert nodes.errors() == [], nodes.errors()
        assert not any(warnings.values()), warnings
        return
    with BrokerProcess(directory, settings=settings) as broker:
        yield broker
        if broker.process is not None:
            broker.stop()
    assert broker.errors() == [], broker.errors()
    assert repeated_warnings(broker.log()) == {}


def repeated_warnings(log: str) -> dict[str, int]:
    """Warnings by their text without its numbers, where there are more than `REPEATS_MAX` of a kind."""
    kinds = Counter(re.sub(r"\d+", "N", line.partition("] WARN ")[2]) for line in log.splitlines() if "] WARN " in line)
    return {text: count for text, count in kinds.items() if count > REPEATS_MAX}


def segment_names(broker: Brokers, topic: str, partition: int = 0) -> list[str]:
    """The partition's segments on the broker's disk, first to last."""
    data = broker.data[NODE_IDS[0]]
    return sorted(path.name for path in (data / f"{topic}-{partition}").glob("*.log"))
