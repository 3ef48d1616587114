"""A log and a cleaner, driven by text commands: `CleanerOracle.java` takes the same and carries them out with Kafka's.

script NAME setting=value ...    begin a log with these topic settings
append HEX                       batches with their offsets, as a follower gets them
time MS | high-watermark N | log-start N | roll | expire | restart
checkpoint N                     what the cleaner's checkpoint says of this log
clean SLOTS STEP                 a run with a dedupe buffer of so many slots, in steps of so many bytes
retain                           a round of retention
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence

from ottla.records import (
    Codec,
    ControlType,
    EndTransactionMarker,
    Record,
    TimestampType,
    build_batch,
    end_transaction_batch,
)
from ottla.storage import Log
from ottla.storage.cleanable import measure
from ottla.storage.cleaner import Cleaning
from ottla.storage.offset_map import ENTRY_BYTES, OffsetMap
from ottla.storage.retention import delete_old_segments
from tests.support.logs import TestLog, new_world

LOAD_FACTOR = 0.9
DAY_MS = 86_400_000
START_MS = 1_767_225_600_000

_SEGMENT_FILE = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex)")


class CleanerLog:
    def __init__(self, settings: dict[str, str]) -> None:
        self.world = new_world()
        self.test = TestLog(self.world, **{name.replace(".", "_"): value for name, value in settings.items()})
        self.checkpoint: int | None = None

    def execute(self, command: str) -> list[str]:
        name, *words = command.split(" ")
        answer = getattr(self, "do_" + name.replace("-", "_"))(*words)
        assert isinstance(answer, list)
        return answer

    def do_append(self, data: str) -> list[str]:
        self.test.log.append_as_follower(bytes.fromhex(data), leader_epoch=0)
        return [f"end {self.test.log.log_end_offset}"]

    def do_time(self, now_ms: str) -> list[str]:
        self.world.clock.set_now_ms(int(now_ms))
        return []

    def do_high_watermark(self, offset: str) -> list[str]:
        self.test.log.update_high_watermark(int(offset))
        return [f"stable {self._stable(self.test.log)}"]

    def do_log_start(self, offset: str) -> list[str]:
        self.test.log.delete_records(int(offset))
        return []

    def do_roll(self) -> list[str]:
        self.test.log.roll()
        return []

    def do_expire(self) -> list[str]:
        self.test.log.remove_expired_producers()
        return [f"{len(self.test.log.producers.producers)} producers"]

    def do_retain(self) -> list[str]:
        delete_old_segments(self.test.log, self.world.clock.now_ms())
        return self._segments()

    def do_checkpoint(self, offset: str) -> list[str]:
        self.checkpoint = int(offset)
        return []

    def do_restart(self) -> list[str]:
        mark = self.test.log.high_watermark
        log = self.test.reopen(log_start_offset=self.test.log.log_start_offset)
        log.update_high_watermark(mark)
        return [f"end {log.log_end_offset}, stable {self._stable(log)}"]

    def _stable(self, log: Log) -> int:
        """The start of the log may be inside a batch of an open transaction, and where that begins does not matter."""
        return max(log.last_stable_offset, log.log_start_offset)

    def do_clean(self, slots: str, step_bytes: str) -> list[str]:
        log = self.test.log
        target = measure(log, self.checkpoint, self.world.clock.now_ms())
        told = [
            f"dirty {target.first_dirty_offset} to {target.first_uncleanable_offset}, clean {target.clean_bytes}, "
            f"cleanable {target.cleanable_bytes}, delay {target.compaction_delay_ms}, "
            f"reset {'true' if target.is_reset else 'false'}"
        ]
        if not target.cleanable_bytes:
            return told
        cleaning = Cleaning(
            self.world,
            log,
            OffsetMap(int(slots) * ENTRY_BYTES, LOAD_FACTOR),
            first_dirty_offset=target.first_dirty_offset,
            first_uncleanable_offset=target.first_uncleanable_offset,
            step_bytes=int(step_bytes),
        )
        while not cleaning.is_done:
            plan = cleaning.step()
            if plan is not None:
                plan.run()
        self.checkpoint = cleaning.end_offset
        stats = cleaning.stats
        told.append(
            f"cleaned to {cleaning.end_offset}, read {stats.bytes_read} bytes, {stats.messages_read} messages, "
            f"wrote {stats.bytes_written} bytes, {stats.messages_written} messages, "
            f"{stats.invalid_messages_read} invalid"
        )
        return told + self._segments()

    def kafkas_mistake(self) -> int | None:
        """The start of the first dirty segment, if a transaction was aborted there before the first dirty offset.

        Kafka then takes what the same producer commits later for aborted, because it never reads the marker.
        """
        log = self.test.log
        start = measure(log, self.checkpoint, self.world.clock.now_ms()).first_dirty_offset
        segment = log.segments.floor(start)
        assert segment is not None, "the log begins above its first dirty offset"
        ended = [aborted for aborted in segment.txn_index.all_aborted if aborted.last_offset < start]
        return segment.base_offset if ended else None

    def _segments(self) -> list[str]:
        """The closed segments: a hash of each of their files."""
        told = []
        disk = self.world.disk
        for name in disk.names(self.test.path):
            match = _SEGMENT_FILE.fullmatch(name)
            if match is None or int(match[1]) >= self.test.log.segments.active.base_offset:
                continue
            data = disk.read(f"{self.test.path}/{name}")
            if match[2] != "txnindex" or data:
                told.append(f"{name} {len(data)} {hashlib.sha256(data).hexdigest()[:16]}")
        return told


class ScriptWriter:
    """Random scripts: what producers of all kinds write, with cleaning, retention and restarts in between."""

    def __init__(self, seed: int, *, is_compressed: bool = False) -> None:
        """Compressed batches come out of compaction with other sizes than Kafka's, because another library made them;
        those scripts leave out what depends on the sizes of segments."""
        self.random = random.Random(seed)
        self.codecs = tuple(Codec) if is_compressed else (Codec.NONE,)
        self.now_ms = START_MS
        self.end_offset = 0
        self.log_start_offset = 0
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()
        self.keys = [self._key() for _ in range(self.random.choice((3, 12, 60)))]
        self.lines = [f"script seed-{seed} " + " ".join(f"{name}={value}" for name, value in self._settings().items())]

    def write(self, length: int) -> list[str]:
        actions = [
            (self._append, 60), (self._end_transaction, 12), (self._clean, 6), (self._pass_time, 5), (self._roll, 4),
            (self._see, 12), (self._expire, 1), (self._restart, 1),
        ]  # fmt: skip
        if self.codecs == (Codec.NONE,):
            actions += [(self._move_start, 1), (self._retain, 1), (self._set_checkpoint, 1)]
        for _ in range(length):
            (action,) = self.random.choices([action for action, _ in actions], [weight for _, weight in actions])
            action()
        # A transaction that stays open would keep all that follows it from being cleaned.
        while self.open:
            self._end_transaction()
        self._roll()
        for _ in range(3):
            self._see()
            self._clean()
            self._pass_time()
        return self.lines

    def _settings(self) -> dict[str, object]:
        choose = self.random.choice
        return {
            "cleanup.policy": choose(("compact", "compact", "compact,delete")),
            "internal.segment.bytes": choose((1000, 2500, 8000)),
            "index.interval.bytes": choose((0, 100, 700)),
            "delete.retention.ms": choose((0, 1000, DAY_MS)),
            "min.compaction.lag.ms": choose((0, 0, 2000)),
            "max.compaction.lag.ms": choose((5000, 9223372036854775807)),
            "retention.ms": choose((-1, 20_000)),
            "retention.bytes": choose((-1, 6000)),
        }

    def _key(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 1, 4, 15, 16, 17, 40)))

    def _append(self) -> None:
        kind = self.random.choice(("plain", "plain", "idempotent", "transactional", "transactional"))
        producer_id = {
            "plain": -1,
            "idempotent": self.random.randrange(1, 4),
            "transactional": self.random.randrange(10, 14),
        }[kind]
        count = self.random.randrange(1, 8)
        records = [
            Record(
                self.end_offset + place,
                max(0, self.now_ms + self.random.randrange(-3000, 3000)),
                None if self.random.random() < 0.03 else self.random.choice(self.keys),
                None if self.random.random() < 0.2 else self.random.randbytes(self.random.randrange(40)),
                (("name", b"value"),) if self.random.random() < 0.1 else (),
            )
            for place in range(count)
        ]
        is_append_time = self.random.random() < 0.1
        sequence = -1
        if producer_id >= 0:
            sequence = self.sequences.get(producer_id, 0)
            self.sequences[producer_id] = sequence + count
        if kind == "transactional":
            self.open.add(producer_id)
        self._batch(
            build_batch(
                records,
                base_offset=self.end_offset,
                codec=self.random.choice(self.codecs),
                timestamp_type=TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
                append_time_ms=self.now_ms if is_append_time else -1,
                producer_id=producer_id,
                producer_epoch=self.epochs.setdefault(producer_id, 0) if producer_id >= 0 else -1,
                base_sequence=sequence,
                is_transactional=kind == "transactional",
                leader_epoch=0,
            ),
            count,
        )

    def _end_transaction(self) -> None:
        if not self.open:
            return
        producer_id = self.random.choice(sorted(self.open))
        self.open.remove(producer_id)
        if self.random.random() < 0.2:
            self.epochs[producer_id] += 1
            self.sequences[producer_id] = 0
        self._batch(
            end_transaction_batch(
                EndTransactionMarker(self.random.choice((ControlType.COMMIT, ControlType.ABORT)), 0),
                producer_id=producer_id,
                producer_epoch=self.epochs[producer_id],
                timestamp=self.now_ms,
                base_offset=self.end_offset,
                leader_epoch=0,
            ),
            1,
        )

    def _batch(self, data: bytes, count: int) -> None:
        self.lines.append(f"append {data.hex()}")
        self.end_offset += count

    def _see(self) -> None:
        self.lines.append(f"high-watermark {self.end_offset}")

    def _clean(self) -> None:
        slots = self.random.choice((2, 5, 30, 1000))
        self.lines.append(f"clean {slots} {self.random.choice((200, 2000, 100_000))}")

    def _pass_time(self) -> None:
        self.now_ms += self.random.choice((1, 900, 1000, 3000, DAY_MS))
        self.lines.append(f"time {self.now_ms}")

    def _roll(self) -> None:
        self.lines.append("roll")

    def _expire(self) -> None:
        self.lines.append("expire")

    def _move_start(self) -> None:
        self._see()
        self.log_start_offset = self.random.randrange(self.log_start_offset, self.end_offset + 1)
        self.lines.append(f"log-start {self.log_start_offset}")

    def _retain(self) -> None:
        self.lines.append("retain")

    def _restart(self) -> None:
        self.lines.append("restart")

    def _set_checkpoint(self) -> None:
        self.lines.append(f"checkpoint {self.random.randrange(self.end_offset + 20)}")


def begin_script(line: str) -> CleanerLog:
    """The log that a script's first line asks for."""
    return CleanerLog(dict(word.split("=", 1) for word in line.split(" ")[2:]))


def run_script(lines: Sequence[str]) -> tuple[CleanerLog, list[str], list[str]]:
    """The log a script leaves, the commands that were carried out, and everything that was printed.

    Runs in which Kafka would make its mistake are left out: the next one then begins at the start of a segment.
    """
    log = begin_script(lines[0])
    commands = []
    told = []
    for line in lines[1:]:
        command = line
        if line.startswith("clean ") and (segment_start := log.kafkas_mistake()) is not None:
            command = f"checkpoint {segment_start}"
        commands.append(command)
        told += [f"> {command}", *log.execute(command)]
    return log, [lines[0], *commands], [lines[0], *told]
