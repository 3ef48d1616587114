"""Input of the parity tests: the same records for both sides, some or all of them out of order.

Each `Case` is a share of late records and has a partition of its own in every topic, and keys of its own: Kafka Streams
keeps time by partition, so the cases run side by side and do not touch each other. Event time goes on by `STEP_MS` a
record, and a late record lies behind that by up to `FAR_MS`, beyond the windows' grace, or for joins and tables by up
to `NEAR_MS`, within it: there a record that is dropped depends on more than the records. Ticks at the end close every
window, in small steps: Kafka Streams' emit-final forgets windows that a great step makes it expire. Pure, from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Producer

BEGIN_MS = 1_700_000_000_000
STEP_MS = 100
FAR_MS = 30_000
NEAR_MS = 8_000
GRACE_MS = 5_000
COUNT = 300
TICK_MS = 1_000
TICKS = 60
TOPICS = (
    "lines", "left", "near-left", "near-right", "near-table", "table-one", "table-two", "orders", "customers",
    "rows", "times-skip", "times-partition", "times-payload", "times-previous",
    "routed", "group-a", "group-b", "as-of", "versions", "versions-two",
)  # fmt: skip
WORDS = ("all", "streams", "lead", "to", "kafka", "hello", "join", "summit")


@dataclass(frozen=True, slots=True)
class Record:
    """One record of an input topic; no value deletes a row of a table."""

    key: str | None
    value: str | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One share of late records, in percent."""

    late: int

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(f"{self.late}/{letter}" for letter in "abcdefg")

    def inputs(self) -> dict[str, list[Record]]:
        """The records of every input topic."""
        return {
            "lines": list(self._lines()),
            "left": list(self._stream("left", FAR_MS)),
            "near-left": list(self._stream("near-left", NEAR_MS)),
            "near-right": list(self._stream("near-right", NEAR_MS)),
            "near-table": list(self._table("near-table")),
            "table-one": list(self._table("table-one")),
            "table-two": list(self._table("table-two")),
            "orders": list(self._orders("orders")),
            "customers": list(self._table("customers")),
            "rows": list(self._orders("rows")),
            "routed": list(self._routed()),
            "group-a": list(self._stream("group-a", FAR_MS)),
            "group-b": list(self._stream("group-b", FAR_MS)),
            "as-of": list(self._stream("as-of", NEAR_MS)),
            "versions": list(self._orders("versions", self.keys)),
            "versions-two": list(self._table("versions-two")),
            **{name: list(self._times_of_their_own(name)) for name in TOPICS if name.startswith("times-")},
        }

    def _times(self, name: str, behind_ms: int) -> Iterator[tuple[int, random.Random, int]]:
        rng = random.Random(f"{name} {self.late}")
        first = BEGIN_MS + COUNT * STEP_MS if self.late == 100 else BEGIN_MS
        yield 0, rng, first + TOPICS.index(name)
        for index in range(1, COUNT):
            now = BEGIN_MS + (COUNT if self.late == 100 else index) * STEP_MS
            is_late = rng.randrange(100) < self.late
            at = now - rng.randrange(1, behind_ms) if is_late else now
            yield index, rng, at - at % STEP_MS + TOPICS.index(name)  # no time twice: Kafka Streams lets chance decide

    def _lines(self) -> Iterator[Record]:
        for _, rng, timestamp in self._times("lines", FAR_MS):
            yield Record(None, " ".join(rng.choices(WORDS, k=rng.randrange(1, 6))), timestamp)

    def _stream(self, name: str, behind_ms: int) -> Iterator[Record]:
        for index, rng, timestamp in self._times(name, behind_ms):
            # Some keys are rare, so that sessions end and joins find no partner.
            key = self.keys[min(rng.randrange(len(self.keys)), rng.randrange(len(self.keys)))]
            yield Record(key, f"{name[-1]}{index}", timestamp)
        first = BEGIN_MS + COUNT * STEP_MS + TOPICS.index(name)
        for tick in range(1, TICKS):
            yield Record(f"{self.late}/tick", f"tick {tick}", first + tick * TICK_MS)

    def _table(self, name: str) -> Iterator[Record]:
        for index, rng, timestamp in self._times(name, NEAR_MS):
            if index == 0:
                timestamp -= STEP_MS  # ahead of the streams, or a stream that is all late would be read before any row
            value = None if rng.random() < 0.2 else f"{name[-3:]}{index}"
            yield Record(rng.choice(self.keys), value, timestamp)

    def _orders(self, name: str, keys: tuple[str, ...] = ()) -> Iterator[Record]:
        for index, rng, timestamp in self._times(name, NEAR_MS):
            value = None if rng.random() < 0.1 else f"{rng.choice((*self.keys, 'nobody'))}:{index}"
            yield Record(rng.choice(keys) if keys else f"{self.late}/order-{rng.randrange(40)}", value, timestamp)

    def _routed(self) -> Iterator[Record]:
        for index, rng, timestamp in self._times("routed", NEAR_MS):
            headers = (("number", str(index).encode()), ("none", None)) if index % 3 else ()
            yield Record(rng.choice(self.keys), f"r{index}", timestamp, headers)

    def _times_of_their_own(self, name: str) -> Iterator[Record]:
        """Records that say in their value when they happened, or do not, and have another time or none themselves."""
        for index, rng, at in self._times(name, NEAR_MS):
            said = "none" if index and rng.random() < 0.15 else str(at)
            timestamp = -1 if index and rng.random() < 0.15 else at + (COUNT - index) * (name == "times-payload")
            yield Record(rng.choice(self.keys), f"{name[-2:]}{index}:{said}", timestamp)


CASES = tuple(Case(late) for late in (0, 10, 50, 100))
BY_KEY = ("orders", "customers")
"""Where Kafka Streams looks for rows by the hash of their key: there the producer chooses the partition."""


def write(bootstrap: str, prefix: str) -> None:
    """The records of all cases in their topics, which are there already, with a partition for each case."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "partitioner": "murmur2_random"})
    for partition, case in enumerate(CASES):
        for name, records in case.inputs().items():
            for record in records:
                producer.produce(
                    f"{prefix}-{name}",
                    key=record.key,
                    value=record.value,
                    timestamp=record.timestamp,
                    headers=list(record.headers),
                    partition=-1 if name in BY_KEY else partition,
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )
    assert producer.flush(60) == 0, "everything is written"
    assert not failed
