"""What the tools that measure and verify share: records on their way, a pace, latencies, metrics as Kafka prints them.

Promises: keeping track of a record costs a list's `append`, and everything else once a batch; all counting and printing
happens on the tool's own thread, so that a line is never torn and nothing needs a lock. Called by
`producer_perf_test`, `consumer_perf_test`, `verifiable_producer`, `verifiable_consumer`.
"""

from __future__ import annotations

import json
import math
import sys
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import click

from ottla.cli.tool import Refused, print_json

if TYPE_CHECKING:
    from types import FrameType

    from ottla.client import Producer
    from ottla.client.metrics import MetricName
    from ottla.client.producer import Delivery
    from ottla.client.producer.batch import ProducerBatch
    from ottla.errors import KafkaError

T = TypeVar("T")

MIB = 1024 * 1024
BURST = 256
"""How many records are sent between two looks at what has arrived."""
NAP_S = 0.02
"""How long the tool's thread rests at most before it looks again."""
FLUSH_LOOK_S = 1.0
SLEEP_MIN_S = 0.002
"""Records of a given pace are sent in bursts rather than with a shorter sleep between them, as Kafka does."""
SAMPLES_MAX = 500_000
PERCENTILES = (0.5, 0.95, 0.99, 0.999)


# Records on their way


class Arrived(NamedTuple, Generic[T]):
    """A batch whose fate is known: what was noted of its records, and when the news came."""

    notes: T
    batch: ProducerBatch
    at_s: float

    def failures(self, count: int) -> dict[int, KafkaError]:
        """Which of its `count` records were not written, and why."""
        fate_of = self.batch.fate_of
        return {index: error for index in range(count) if (error := fate_of(index)[1]) is not None}


class Underway(Generic[T]):
    """What was sent and has not arrived: notes for each batch, of the kind that `new_notes` makes.

    Records are noted in the order in which they were sent, by the only one who sends with that producer: so a note's
    place in a list is its record's place in the batch.
    """

    def __init__(self, new_notes: Callable[[], T]) -> None:
        self._new_notes = new_notes
        self._notes: dict[ProducerBatch, T] = {}
        self._done: deque[tuple[ProducerBatch, float]] = deque()

    def notes_of(self, delivery: Delivery) -> T:
        """Where this record is noted, and those that follow it in the same batch."""
        batch = delivery[0]
        notes = self._notes.get(batch)
        if notes is None:
            notes = self._notes[batch] = self._new_notes()
            delivery.add_done_callback(self._on_done)
        return notes

    def _on_done(self, delivery: Delivery) -> None:
        # On the client's thread, perhaps before the sender has noted its last record: so no note is read here.
        self._done.append((delivery[0], time.time()))

    def arrived(self) -> Iterator[Arrived[T]]:
        """The batches that have arrived since the last call. On the sender's thread, between two records."""
        while self._done:
            batch, at_s = self._done.popleft()
            yield Arrived(self._notes.pop(batch), batch, at_s)

    def all(self) -> dict[ProducerBatch, T]:
        """The notes of every batch that `arrived` has not given yet."""
        return self._notes


def flush_and(producer: Producer, look: Callable[[], object]) -> None:
    """Wait until everything has arrived, and `look` now and then meanwhile."""
    from ottla.client.errors import KafkaTimeout

    while True:
        try:
            producer.flush(FLUSH_LOOK_S)
        except KafkaTimeout:
            look()
        else:
            look()
            return


# Pace


def paced(rate: float, started_s: float, now_s: Callable[[], float] = time.time) -> Iterator[int]:
    """How many records may be sent now, again and again: `rate` a second on average, without a limit below zero.

    It sleeps between two answers and never for long: 0 is an answer too. A rate of 0 allows one record and no more.
    """
    if rate < 0:
        while True:
            yield BURST
    given = 0
    while True:
        due = int((now_s() - started_s) * rate) + 1 - given
        if due > 0:
            given += due
            while due > 0:
                yield min(due, BURST)
                due -= BURST
        wait_s = started_s + given / rate - now_s() if rate else NAP_S
        time.sleep(min(max(wait_s, SLEEP_MIN_S), NAP_S))
        yield 0


class StopSignals:
    """SIGTERM and SIGINT, while the block runs, call `on_stop` instead of ending the process; `exit_code` tells."""

    def __init__(self, on_stop: Callable[[], object] = lambda: None) -> None:
        self._on_stop = on_stop
        self._before: dict[int, object] = {}
        self.exit_code = 0
        """What a process that was ended by the signal would exit with; 0 without one."""

    @property
    def is_set(self) -> bool:
        return self.exit_code != 0

    def __enter__(self) -> StopSignals:
        import signal
        import threading

        if threading.current_thread() is threading.main_thread():  # elsewhere nobody can be sent a signal
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self.exit_code:
            self.exit_code = 128 + number
            self._on_stop()

    def __exit__(self, *error: object) -> None:
        import signal

        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as it was given


# Latencies


class Latencies:
    """How long records took, of all and of the present window; Kafka's lines about both."""

    def __init__(
        self,
        record_count: int,
        reporting_interval_ms: int,
        now_s: float,
        *,
        is_steady: bool = False,
        as_json: bool = False,
    ) -> None:
        self._started_s = self._window_started_s = now_s
        self._interval_s = reporting_interval_ms / 1000
        self._is_steady = is_steady
        self._as_json = as_json
        self._sampling = max(1, record_count // min(record_count, SAMPLES_MAX))
        self._samples = array("d")
        self.count = self.bytes = 0
        self._total_s = self._max_s = 0.0
        self._window_count = self._window_bytes = 0
        self._window_total_s = self._window_max_s = 0.0
        self.is_quiet = False
        """Whether windows are not printed any more."""

    def record(self, started_s: list[float], size: int, at_s: float) -> None:
        """Records of `size` bytes together that were sent at these times, the earliest first, arrived."""
        if not started_s:
            return
        count = len(started_s)
        total_s = count * at_s - math.fsum(started_s)
        max_s = max(0.0, at_s - started_s[0])
        first_sample = -self.count % self._sampling
        self._samples.extend([at_s - one for one in started_s[first_sample :: self._sampling]])
        self.count += count
        self.bytes += size
        self._total_s += total_s
        self._max_s = max(self._max_s, max_s)
        self._window_count += count
        self._window_bytes += size
        self._window_total_s += total_s
        self._window_max_s = max(self._window_max_s, max_s)

    def report(self, now_s: float) -> None:
        """Print the window and begin a new one, if it has lasted long enough and something has arrived."""
        if not self._window_count or now_s - self._window_started_s < self._interval_s:
            return
        if not self.is_quiet:
            if self._is_steady and self.count == self._window_count and not self._as_json:
                click.echo("In steady state.")
            self._print_window(now_s)
        self._window_started_s = now_s
        self._window_count = self._window_bytes = 0
        self._window_total_s = self._window_max_s = 0.0

    def _print_window(self, now_s: float) -> None:
        elapsed_s = now_s - self._window_started_s
        numbers = {
            "records": self._window_count,
            "recordsPerSec": self._window_count / elapsed_s,
            "mbPerSec": self._window_bytes / elapsed_s / MIB,
            "avgLatencyMs": 1000 * self._window_total_s / self._window_count,
            "maxLatencyMs": 1000 * self._window_max_s,
        }
        if self._as_json:
            self._print_json("window", numbers)
            return
        click.echo(
            "{records} records sent, {recordsPerSec:.1f} records/sec ({mbPerSec:.2f} MB/sec), "
            "{avgLatencyMs:.1f} ms avg latency, {maxLatencyMs:.1f} ms max latency.".format(**numbers)
        )

    def print_total(self, now_s: float) -> None:
        """Print what there is to say at the end."""
        elapsed_s = now_s - self._started_s
        percentiles = self.percentiles()
        numbers = {
            "records": self.count,
            "recordsPerSec": ratio(self.count, elapsed_s),
            "mbPerSec": ratio(self.bytes / MIB, elapsed_s),
            "avgLatencyMs": ratio(1000 * self._total_s, self.count),
            "maxLatencyMs": 1000 * self._max_s,
            "p50Ms": percentiles[0],
            "p95Ms": percentiles[1],
            "p99Ms": percentiles[2],
            "p999Ms": percentiles[3],
        }
        if self._as_json:
            self._print_json("steady" if self._is_steady else "total", numbers)
            return
        avg = java_number(numbers["avgLatencyMs"], 2)
        per_s, mb_per_s = java_number(numbers["recordsPerSec"], 6), java_number(numbers["mbPerSec"], 2)
        click.echo(
            f"{self.count}{' steady state' if self._is_steady else ''} records sent, {per_s} records/sec "
            f"({mb_per_s} MB/sec), {avg} ms avg latency, {1000 * self._max_s:.2f} ms max latency, "
            f"{percentiles[0]} ms 50th, {percentiles[1]} ms 95th, {percentiles[2]} ms 99th, {percentiles[3]} ms 99.9th."
        )

    def percentiles(self) -> list[int]:
        """Whole milliseconds that half, 95 %, 99 % and 99.9 % of the records took at most."""
        found = sorted(self._samples)
        return [int(1000 * found[int(share * len(found))]) if found else 0 for share in PERCENTILES]

    def _print_json(self, kind: str, numbers: Mapping[str, float]) -> None:
        print_json({"kind": kind, **{name: json_number(value) for name, value in numbers.items()}})


# Numbers


def ratio(part: float, whole: float) -> float:
    """A quotient as Java's doubles have it: infinite, or no number, where nothing is divided by."""
    if whole:
        return part / whole
    return math.inf if part > 0 else math.nan


def java_number(value: float, digits: int) -> str:
    """A number with so many digits behind the point, as Java prints it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value:.{digits}f}"


def json_number(value: float) -> float | None:
    """A number that JSON has: None for those it has not."""
    if isinstance(value, int):
        return value
    return round(value, 4) if math.isfinite(value) else None


def print_metrics(metrics: Mapping[MetricName, float], *, as_json: bool) -> None:
    """All metrics by group, name and tags, as Kafka's tools print them."""
    rows = {
        f"{name.group}:{name.name}:{{{', '.join(f'{tag}={of}' for tag, of in name.tags)}}}": value
        for name, value in metrics.items()
    }
    if as_json:
        print_json({"kind": "metrics", "metrics": {row: json_number(rows[row]) for row in sorted(rows)}})
        return
    if not rows:
        return
    width = max(map(len, rows))
    click.echo(f"\n{'Metric Name':<{width}}   Value")
    for row in sorted(rows):
        click.echo(f"{row:<{width}} : {java_number(rows[row], 3)}")


# Lines of JSON

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def print_lines(*lines: str) -> None:
    """Print these, whole. Where Python does not buffer (PYTHONUNBUFFERED, as in most containers), a write that a signal
    interrupts writes a part, and `print` would lose the rest."""
    data = memoryview("".join(f"{line}\n" for line in lines).encode())
    out = sys.stdout.buffer
    while data:
        data = data[out.write(data) :]
    out.flush()


def now_ms() -> int:
    return int(time.time() * 1000)


def event_line(name: str, at_ms: int | None = None, /, **fields: object) -> str:
    """Something that happened, as the verifiable tools tell it: when, what, and more."""
    return _encode({"timestamp": now_ms() if at_ms is None else at_ms, "name": name, **fields})


# Settings


def read_properties(given: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` each, and nothing else."""
    found = {}
    for item in given:
        name, _, value = item.partition("=")
        if not name or not value:
            raise Refused(f"Invalid property: {item}")
        found[name] = value
    return found
