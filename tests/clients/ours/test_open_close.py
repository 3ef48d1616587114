"""A thousand clients, one after the other: nothing of them stays."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.client import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer, ShareConsumer
from ottla.testing import Cluster

ROOT = Path(__file__).parents[3]
WARM_UP = 50
OBJECTS_MAX = 500
"""One object of each client would be a thousand; caches that fill up may still add a few."""
RESIDENT_BYTES_MAX = 16 << 20
"""A client's buffers are larger than a sixteenth of a megabyte."""


def produce(address: str) -> None:
    with Producer(bootstrap_servers=address, linger_ms=0) as producer:
        producer.send_and_wait("t", b"v")


def consume(address: str) -> None:
    with Consumer(bootstrap_servers=address, auto_offset_reset="earliest", fetch_max_wait_ms=10) as consumer:
        consumer.assign([("t", 0)])
        assert consumer.poll(10)


def administer(address: str) -> None:
    with Admin(bootstrap_servers=address) as admin:
        assert "t" in admin.list_topics()


def leave_at_once(address: str) -> None:
    """Closed before anything has come of it."""
    Producer(bootstrap_servers=address).close()
    Consumer(bootstrap_servers=address, group_id="g").close()
    ShareConsumer(bootstrap_servers=address, group_id="s").close()
    Admin(bootstrap_servers=address).close()


def use_asyncio(address: str) -> None:
    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=address, linger_ms=0) as producer:
            await producer.send_and_wait("t", b"v")
        async with AsyncConsumer(bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
            await consumer.assign([("t", 0)])
            assert await consumer.poll(10)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("use", "cycles"),
    [(produce, 1000), (consume, 1000), (administer, 1000), (leave_at_once, 250), (use_asyncio, 250)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_thousand_clients_leave_nothing_behind(use: Callable[[str], None], cycles: int) -> None:
    """In a process of their own: one that other tests have used has memory of theirs to give back or to fill."""
    check = f"from {__name__} import {use.__name__}, leaves_nothing; leaves_nothing({use.__name__}, {cycles})"
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def leaves_nothing(use: Callable[[str], None], cycles: int) -> None:
    """Raises `AssertionError` unless this process is the same after so many clients."""
    with Cluster(processes=True) as cluster:
        cluster.create_topic("t")
        produce(cluster.bootstrap_servers)
        for _ in range(WARM_UP):
            use(cluster.bootstrap_servers)
        threads, files = threading.active_count(), open_files()
        gc.collect()
        objects, resident = len(gc.get_objects()), resident_bytes()
        for _ in range(cycles):
            use(cluster.bootstrap_servers)
        gc.collect()
        grown = len(gc.get_objects()) - objects
        deadline = time.monotonic() + 5
        while threading.active_count() > threads and time.monotonic() < deadline:
            time.sleep(0.05)
        assert threading.active_count() <= threads
        assert open_files() <= files
        assert grown < OBJECTS_MAX, f"{grown} objects stay"
        more = resident_bytes() - resident
        assert more < RESIDENT_BYTES_MAX, f"{more} bytes stay"


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
