"""The log on disk: appends, opening and recovery."""

from __future__ import annotations

import os
import struct

from benchmarks import AtLeast, AtMost, Bench, Result, Unit, benchmark
from ottla.config import LogConfig
from ottla.records import HEADER_SIZE, Codec, Record, build_batch, crc32c
from ottla.storage import Chores, Log, LogDir, LogManager, load_log
from ottla.types import TopicPartition
from ottla.world.system import system_world

MIB = 1 << 20
PARTITION = TopicPartition("bench", 0)


def one_batch(size: int, value_size: int = 1024) -> bytes:
    """A batch of about `size` bytes, as a producer sends it."""
    count = max(1, size // (value_size + 10))
    records = [Record(offset, 1_700_000_000_000, None, bytes(value_size), ()) for offset in range(count)]
    return bytes(build_batch(records, base_offset=0, codec=Codec.NONE))


def open_log(directory: str, **overrides: object) -> Log:
    world = system_world()
    config = LogConfig().with_topic({"message.timestamp.after.max.ms": 2**62, **overrides})
    return load_log(world, LogDir(directory), f"{directory}/{PARTITION}", config, Chores(world.clock))


@benchmark("storage", "append 1 MiB requests", bar=AtLeast(0.6))
def append_large(bench: Bench) -> Result:
    """Bytes a second through append_as_leader, beside a bare write of the same bytes to a file."""
    count = bench.pick(256, 2)
    directory = str(bench.temp_dir())
    batch = one_batch(MIB - 2048)
    buffer = bytearray(batch)
    made = 0
    log: Log | None = None
    fd = -1

    def before() -> None:
        """Each round writes to fresh files, both sides alike."""
        nonlocal made, log, fd
        made += 1
        if log is not None:
            log.delete()
            os.close(fd)
            os.unlink(f"{directory}/bare")
        log = open_log(f"{directory}/{made}")
        fd = os.open(f"{directory}/bare", os.O_RDWR | os.O_CREAT)

    def ours() -> None:
        assert log is not None
        for _ in range(count):
            struct.pack_into(">q", buffer, 0, 0)
            log.append_as_leader(buffer, leader_epoch=0)

    def theirs() -> None:
        for number in range(count):
            os.pwrite(fd, buffer, number * len(buffer))

    comparison = bench.compare(ours, theirs, before=before)
    return comparison.rate(count * len(buffer), Unit.BYTES_PER_SECOND, rival="bare write")


@benchmark("storage", "append one record, CPU", bar=AtMost(15e-6, Unit.SECONDS))
def append_small(bench: Bench) -> Result:
    """CPU time of append_as_leader with a batch of one 100-byte record, kernel time included."""
    count = bench.pick(20_000, 10)
    log = open_log(str(bench.temp_dir()))
    buffer = bytearray(one_batch(100, 100))

    def work() -> None:
        for _ in range(count):
            struct.pack_into(">q", buffer, 0, 0)
            log.append_as_leader(buffer, leader_epoch=0)

    timing = bench.measure(work)
    return Result(timing.best_cpu_s / count, Unit.SECONDS, note="one write a batch; kernel time included")


@benchmark("storage", "append one idempotent record, CPU", bar=AtMost(20e-6, Unit.SECONDS))
def append_idempotent(bench: Bench) -> Result:
    """CPU time of append_as_leader with a one-record batch of an idempotent producer."""
    count = bench.pick(20_000, 10)
    log = open_log(str(bench.temp_dir()))
    template = build_batch(
        [Record(0, 1_700_000_000_000, None, bytes(100), ())],
        base_offset=0, codec=Codec.NONE, producer_id=7, producer_epoch=0, base_sequence=0,
    )  # fmt: skip
    buffer = bytearray(template)
    sequence = 0

    def work() -> None:
        nonlocal sequence
        for _ in range(count):
            struct.pack_into(">q", buffer, 0, 0)
            struct.pack_into(">i", buffer, 53, sequence)
            struct.pack_into(">I", buffer, 17, crc32c(memoryview(buffer)[21:]))
            log.append_as_leader(buffer, leader_epoch=0)
            sequence += 1

    timing = bench.measure(work)
    return Result(timing.best_cpu_s / count, Unit.SECONDS, note="includes making the batch: 1 checksum, 3 stamps")


@benchmark("storage", "open 1,000 partitions", bar=AtMost(1.5, Unit.SECONDS))
def open_clean(bench: Bench) -> Result:
    """Opening a cleanly closed directory of 1,000 partitions, each with a segment, its indexes and a snapshot."""
    count = bench.pick(1000, 3)
    directory = str(bench.temp_dir())
    world = system_world()
    manager = LogManager(world, [directory])
    manager.start()
    batch = bytearray(one_batch(2000, 100))
    for number in range(count):
        log = manager.create(TopicPartition("bench", number))
        struct.pack_into(">q", batch, 0, 0)
        log.append_as_leader(batch, leader_epoch=0)
        log.update_high_watermark(log.log_end_offset)
    manager.shutdown()

    opened: list[LogManager] = []

    def before() -> None:
        for one in opened:
            one.shutdown()
        opened.clear()

    def work() -> None:
        again = LogManager(world, [directory])
        again.start()
        assert len(again.logs) == count
        opened.append(again)

    timing = bench.measure(work, before=before)
    before()
    return Result(timing.best_s, Unit.SECONDS)


@benchmark("storage", "recovery scan", bar=AtLeast(500e6, Unit.BYTES_PER_SECOND))
def recovery_scan(bench: Bench) -> Result:
    """Bytes a second of recovering one segment of 16 KiB batches: checksums, indexes and state rebuilt."""
    size = bench.pick(256 * MIB, MIB)
    directory = str(bench.temp_dir())
    log = open_log(directory)
    batch = bytearray(one_batch(16384))
    while log.log_end_offset * 1024 < size:
        struct.pack_into(">q", batch, 0, 0)
        log.append_as_leader(batch, leader_epoch=0)
    total = log.size
    end = log.log_end_offset
    log.close()

    def work() -> None:
        again = open_log(directory)
        assert again.log_end_offset == end
        again.abandon()

    timing = bench.measure(work)
    return Result(total / timing.best_s, Unit.BYTES_PER_SECOND, note="the file is in the page cache")


assert HEADER_SIZE == 61  # the offsets that the stamps above rely on
