"""kill -9 under load: every acknowledged record is there once, in order. All fifty kills run in `make soak`."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.durability.killing import kill_under_load
from tests.support.broker import BrokerProcess
from tests.support.survey import QUIET, TIMEOUT_S, consumer_config

IS_SOAK = bool(os.environ.get("OTTLA_SOAK"))
KILLS = 50 if IS_SOAK else 5
FLUSHED = {"log.flush.interval.messages": "1"}
UNFLUSHED_BYTES = 100_000_000 if IS_SOAK else 20_000_000
RESTART_S_MAX = 1.0


@pytest.mark.timeout(1200 if IS_SOAK else 120)
@pytest.mark.parametrize("settings", [FLUSHED, {}], ids=["flushed", "page-cache"])
def test_no_acknowledged_record_is_lost_or_repeated_by_kill_9(settings: dict[str, str], tmp_path: Path) -> None:
    restarts = kill_under_load(tmp_path, kills=KILLS, settings=settings)
    print(f"{len(restarts)} kills; restarts took {min(restarts):.2f} to {max(restarts):.2f} s")
    assert len(restarts) == KILLS


@pytest.mark.timeout(1200 if IS_SOAK else 120)
def test_a_controlled_shutdown_under_load_loses_and_repeats_nothing_either(tmp_path: Path) -> None:
    """What was taken from a producer is answered before its connection is closed: what it sends again after the
    restart, it sends because the broker has not got it."""
    restarts = kill_under_load(tmp_path, kills=KILLS, settings={}, end=BrokerProcess.stop)
    assert len(restarts) == KILLS


def test_a_hundred_megabytes_that_were_not_flushed_are_recovered_within_a_second(tmp_path: Path) -> None:
    """The whole start, of a process killed while nothing of its log was flushed; the best of three, because other
    processes share this machine. Outside `make soak` there are fewer bytes and no bound on the time."""
    broker = BrokerProcess(tmp_path / "first", topics=["big:1"])
    with broker:
        count = fill(broker.address, UNFLUSHED_BYTES)
        broker.kill()
    log_bytes = sum(path.stat().st_size for path in (broker.directory / "data" / "big-0").glob("*.log"))
    assert log_bytes >= UNFLUSHED_BYTES
    seconds: list[float] = []
    for number in range(3 if IS_SOAK else 1):
        again = BrokerProcess(tmp_path / f"copy{number}")
        shutil.copytree(broker.directory / "data", again.directory / "data")
        begun = time.monotonic()
        with again:
            seconds.append(time.monotonic() - begun)
            assert "Recovering unflushed segment" in again.log(), "there was nothing to recover"
            assert ends(again.address) == (0, count)
            again.stop()
        shutil.rmtree(again.directory)
    print(f"{log_bytes / 1e6:.0f} MB recovered; starts took {', '.join(f'{one:.2f}' for one in seconds)} s")
    assert min(seconds) < RESTART_S_MAX or not IS_SOAK


def fill(address: str, size: int) -> int:
    """Write this many bytes of values; returns the number of records."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "batch.size": 500_000, **QUIET})
    value = os.urandom(1000)
    count = size // len(value)
    for _ in range(count):
        while len(producer) > 50_000:
            producer.poll(0.01)
        producer.produce("big", value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    return count


def ends(address: str) -> tuple[int, int]:
    consumer = Consumer(consumer_config(address, "read_uncommitted"))
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition("big", 0), timeout=TIMEOUT_S)
        return low, high
    finally:
        consumer.close()
