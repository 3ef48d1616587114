"""A broker that is killed and comes back while a consumer reads: nothing lost, nothing twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.groups.conftest import SETTINGS
from tests.clients.ours.consumers import FACES, make_topic, numbers, partitions, write
from tests.support.nodes import KIND, Nodes, running
from tests.support.server import Server

COUNT = 4000
CHUNK = 400


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Server | Nodes]:
    """A broker of its own, that may be killed and started again."""
    with running(KIND, tmp_path, SETTINGS) as started:
        yield started


@pytest.mark.parametrize("face", list(FACES))
def test_a_restart_costs_time_and_no_record(face: str, node: Server | Nodes) -> None:
    topic = make_topic(node.address, 3)
    make: Callable[..., Any] = FACES[face]
    is_over = threading.Event()
    written: list[int] = []

    def keep_writing() -> None:
        while not is_over.is_set() and len(written) < COUNT:
            partition = len(written) // CHUNK % 3
            write(
                node.address,
                topic,
                numbers(CHUNK, len(written)),
                partition=partition,
                patience_s=80,
            )
            written.extend(range(CHUNK))

    writer = threading.Thread(target=keep_writing)
    is_kafka = isinstance(node, Server)  # whose broker takes half a minute to be let in again
    restart_count = 1 if is_kafka else 2
    with make(bootstrap_servers=node.address, auto_offset_reset="earliest", max_poll_records=50) as consumer:
        consumer.assign(partitions(topic, 3))
        writer.start()
        found: dict[int, list[Any]] = {0: [], 1: [], 2: []}
        restarts = 0
        deadline = time.monotonic() + 90
        while sum(map(len, found.values())) < COUNT:
            assert time.monotonic() < deadline, {one: len(records) for one, records in found.items()}
            for record in consumer.poll(1):
                found[record.partition].append(record)
            if restarts < restart_count and sum(map(len, found.values())) > (restarts + 1) * COUNT / 4:
                restarts += 1
                node.kill()
                node.start()
        is_over.set()
        writer.join()
        assert restarts == restart_count
    for records in found.values():
        assert [record.offset for record in records] == list(range(len(records)))
        values = [int(record.value) for record in records]
        assert len(set(values)) == len(values), "a record came twice"
    assert sorted(int(record.value) for records in found.values() for record in records) == list(range(COUNT))
