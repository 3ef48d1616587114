"""Attempts of one task in each other's way, in every order: whoever is told that all is written is told the truth.

The real `Sender` and the real `find_earlier` against a model of a partition's leader: its sequence check, with the last
five batches remembered, and its answers. What is delivered, answered or lost next is drawn by hypothesis. Attempts have
the same rows in different orders, are begun at any moment, and are never told to stop: each is a zombie to the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.network import Deadline
from ottla.errors import KafkaError, NetworkException, OutOfOrderSequenceNumber
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.sink.earlier import Earlier, find_earlier
from ottla.pipelines.sink.link import Link
from ottla.pipelines.sink.sending import Conflict, Outgoing, Sender
from ottla.pipelines.sink.transaction import Transaction
from ottla.records import Batch, batches, build_batch, restamp
from ottla.types import TopicPartition, Uuid
from ottla.wire.messages.describe_producers import ProducerState
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

PLACE = TopicPartition("out", 0)
TOPIC_ID = Uuid(b"0123456789abcdef")
TRANSACTION = Transaction("sink", 7, 3, True)
REMEMBERED = 5
LOG_APPEND_MS = 5_000_000
STAMP_MS = 1_000_000


class Row(NamedTuple):
    """A row of a task, and its record's time where rows say it."""

    value: bytes
    time_ms: int = STAMP_MS


@dataclass
class Leader:
    """A partition's leader: the log, and what it remembers of the one producer id there is."""

    stamps_itself: bool
    log: list[Batch] = field(default_factory=list)
    end: int = 0

    @property
    def next_sequence(self) -> int:
        return self.log[-1].last_sequence + 1 if self.log else 0

    def append(self, data: bytes) -> PartitionProduceResponse:
        (batch,) = batches(data)
        for known in self.log[-REMEMBERED:]:
            if (known.base_sequence, known.last_sequence) == (batch.base_sequence, batch.last_sequence):
                # A repetition, as far as the broker can tell: the answer has the kept batch's offset and timestamp.
                time_ms = LOG_APPEND_MS if self.stamps_itself else known.max_timestamp
                return PartitionProduceResponse(PLACE.partition, 0, known.base_offset, time_ms)
        if batch.base_sequence != self.next_sequence:
            return PartitionProduceResponse(PLACE.partition, OutOfOrderSequenceNumber.code, -1)
        kept = bytearray(data)
        restamp(kept, 0, base_offset=self.end, leader_epoch=0)
        (written,) = batches(bytes(kept))
        self.log.append(written)
        self.end = written.next_offset
        return PartitionProduceResponse(
            PLACE.partition, 0, written.base_offset, LOG_APPEND_MS if self.stamps_itself else -1
        )

    def values(self) -> list[bytes]:
        return [bytes(row[3] or b"") for batch in self.log for row in batch.rows()]

    def rows(self) -> list[Row]:
        return [Row(bytes(row[3] or b""), row[1]) for batch in self.log for row in batch.rows()]


def run_now(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns that has nothing to wait for."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


@dataclass
class Request:
    """A Produce on its way, or its answer on the way back."""

    data: bytes
    on_answer: Callable[[Any, KafkaError | None], None]
    response: ProduceResponse | None = None


class ModelLink:
    """What `Sender` and `find_earlier` need of a link, with one leader behind it."""

    def __init__(self, leader: Leader) -> None:
        self.leader = leader
        self.requests: list[Request] = []
        self.timers: list[Callable[[], None]] = []
        self.config = SimpleNamespace(max_request_size=1 << 20, request_timeout_ms=30_000, delivery_timeout_ms=120_000)
        topic = SimpleNamespace(topic_id=TOPIC_ID)
        cluster = SimpleNamespace(leader=lambda partition: SimpleNamespace(node_id=1), topics={PLACE.topic: topic})
        self.metadata = SimpleNamespace(cluster=cluster, request_update=lambda: None)
        self.network = SimpleNamespace(
            send_then=self._send_then, send=self._fetch, retry_backoff=SimpleNamespace(delay_ms=lambda failures: 1)
        )
        clock = SimpleNamespace(monotonic_ms=lambda: 0)
        tasks = SimpleNamespace(
            later=lambda delay_ms, call: self.timers.append(call),
            spawn=lambda work, name: run_now(work),
            sleep_ms=self._sleep_ms,
        )
        self.world = SimpleNamespace(clock=clock, tasks=tasks)

    def _send_then(self, node_id: int, build: Any, on_answer: Any) -> None:
        (topic,) = build.make(13).topic_data
        (partition,) = topic.partition_data
        self.requests.append(Request(bytes(partition.records), on_answer))

    async def _fetch(self, node_id: int, build: Any) -> Any:
        (topic,) = build.make(13).topics
        start = topic.partitions[0].fetch_offset
        records = b"".join(bytes(batch.data) for batch in self.leader.log if batch.next_offset > start)
        told = SimpleNamespace(error_code=0, records=records)
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[told])])

    async def _sleep_ms(self, delay_ms: float) -> None:
        return None

    async def topic(self, name: str) -> None:
        return None

    async def persist(self, once: Callable[[], Any]) -> Any:
        return await once()

    def by_leader(self, partitions: Any) -> dict[int, list[TopicPartition]]:
        return {1: list(partitions)}

    def deadline(self) -> Deadline:
        return Deadline(cast(Any, self.world), 60_000)

    async def producers(self, partitions: Any) -> dict[TopicPartition, list[ProducerState]]:
        if not self.leader.log:
            return {PLACE: []}
        state = ProducerState(
            producer_id=TRANSACTION.producer_id,
            producer_epoch=TRANSACTION.epoch,
            last_sequence=self.leader.next_sequence - 1,
            current_txn_start_offset=0,
        )
        return {PLACE: [state]}


class Attempt:
    """One attempt: what `_TaskWriter` does, with rows that are there at once."""

    def __init__(
        self,
        number: int,
        leader: Leader,
        rows: list[Row],
        sizes: list[int],
        *,
        has_timestamps: bool = False,
        clock_ms: int = STAMP_MS,
    ) -> None:
        """`clock_ms` is what its machine's clock shows, and the time of records whose rows say none."""
        self.link = ModelLink(leader)
        link = cast(Link, self.link)
        self.rows = rows
        self.sender = Sender(link, TRANSACTION, has_timestamps=has_timestamps)
        self.earlier: Earlier | None = None
        self.error: Exception | None = None
        sequence = 0
        left = rows
        if number > 0:
            found = run_now(find_earlier(link, TRANSACTION, [PLACE], has_timestamps=has_timestamps))
            self.earlier = found.get(PLACE)
        if self.earlier is not None:
            sequence = self.earlier.next_sequence
            left = [row for row in rows if not self.earlier.has((None, row.value, (), row.time_ms))]
            self.earlier.finish()
        outgoing = []
        for turn in range(len(left)):
            taken, left = left[: sizes[turn % len(sizes)]], left[sizes[turn % len(sizes)] :]
            if not taken:
                break
            data = build_batch(
                [
                    (at, row.time_ms if has_timestamps else clock_ms, None, row.value, ())
                    for at, row in enumerate(taken)
                ],
                producer_id=TRANSACTION.producer_id,
                producer_epoch=TRANSACTION.epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
            outgoing.append(Outgoing(PLACE, data, sequence, len(taken)))
            sequence += len(taken)
        run_now(self.sender.put(outgoing))

    @property
    def is_open(self) -> bool:
        return bool(self.link.requests or self.link.timers)

    def go_on(self, choice: int) -> None:
        """Whatever may happen next to this attempt's requests."""
        if not self.link.requests:
            if self.link.timers:
                self.link.timers.pop(0)()
            return
        request = self.link.requests[0]
        if request.response is None and choice != 0:
            told = self.link.leader.append(request.data)
            request.response = ProduceResponse(responses=[TopicProduceResponse("", TOPIC_ID, [told])])
            if choice == 1:
                return  # in the log, and the answer is under way
        self.link.requests.pop(0)
        if choice == 0 or choice == 2:
            request.on_answer(None, NetworkException("lost"))  # with or without having been carried out
        else:
            request.on_answer(request.response, None)

    def has_succeeded(self) -> bool:
        """Whether the task would return; a failure is kept."""
        if self.is_open:
            return False
        try:
            run_now(self.sender.drain())
        except (Conflict, PipelineError) as error:
            self.error = error
            return False
        return True


ROWS = st.lists(st.builds(Row, st.sampled_from([b"a", b"b", b"c", b"d"]), st.integers(1, 2)), min_size=1, max_size=12)
SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=4)


@settings(max_examples=600, deadline=None)
@given(
    rows=ROWS,
    orders=st.lists(st.randoms(use_true_random=False), min_size=2, max_size=3),
    sizes=st.lists(SIZES, min_size=3, max_size=3),
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), max_size=60),
    stamps_itself=st.booleans(),
    has_timestamps=st.booleans(),
    clocks=st.lists(st.integers(STAMP_MS, STAMP_MS + 1), min_size=3, max_size=3),
)
def test_an_attempt_that_succeeds_has_its_rows_in_the_log_once_each(
    rows: list[Row],
    orders: list[Any],
    sizes: list[list[int]],
    steps: list[tuple[int, int]],
    stamps_itself: bool,
    has_timestamps: bool,
    clocks: list[int],
) -> None:
    """Whatever the attempts' clocks show: they run on machines of which some are behind, so that times meet."""
    leader = Leader(stamps_itself)
    attempts: list[Attempt] = []

    def begin() -> None:
        number = len(attempts)
        order = list(rows)
        orders[number].shuffle(order)
        attempts.append(
            Attempt(number, leader, order, sizes[number], has_timestamps=has_timestamps, clock_ms=clocks[number])
        )

    begin()
    for who, choice in steps:
        if who >= len(attempts) and len(attempts) < len(orders):
            begin()
        else:
            attempts[who % len(attempts)].go_on(min(choice, 3))
    for attempt in attempts:
        for _ in range(200):
            attempt.go_on(3)
    for attempt in attempts:
        if attempt.has_succeeded():
            assert Counter(leader.values()) == Counter(row.value for row in rows)
            if has_timestamps and not stamps_itself:
                assert Counter(leader.rows()) == Counter(rows)


def letters(text: str) -> list[Row]:
    return [Row(letter.encode()) for letter in text]


def test_the_attempt_that_is_left_alone_succeeds_after_any_other() -> None:
    """The first stops between two batches; the second finds what is there and completes it."""
    leader = Leader(stamps_itself=False)
    first = Attempt(0, leader, letters("abcd"), [1])
    first.go_on(3)
    first.go_on(3)
    second = Attempt(1, leader, letters("dcba"), [2])
    while second.is_open:
        second.go_on(3)
    assert second.has_succeeded()
    assert Counter(leader.values()) == Counter([b"a", b"b", b"c", b"d"])
    while first.is_open:
        first.go_on(3)
    assert not first.has_succeeded()
    assert isinstance(first.error, Conflict)


def test_a_batch_that_the_broker_takes_for_a_repetition_of_anothers_is_noticed() -> None:
    """Both attempts begin before either has written, with batches of one size: without a look at the answer's
    timestamp the second would believe that its rows are in the log."""
    leader = Leader(stamps_itself=False)
    first = Attempt(0, leader, letters("ab"), [1])
    second = Attempt(1, leader, letters("ba"), [1], clock_ms=STAMP_MS + 1)
    for attempt in (first, second):
        while attempt.is_open:
            attempt.go_on(3)
    assert first.has_succeeded()
    assert not second.has_succeeded()
    assert isinstance(second.error, Conflict)
    assert leader.values() == [b"a", b"b"]


def test_attempts_whose_clocks_show_the_same_time_are_told_apart() -> None:
    """They run on two machines, and one clock is behind: what their records' times are proves nothing."""
    leader = Leader(stamps_itself=False)
    first, second = (Attempt(number, leader, letters(order), [1]) for number, order in enumerate(("ab", "ba")))
    for attempt in (first, second):
        while attempt.is_open:
            attempt.go_on(3)
    assert first.has_succeeded()
    assert not second.has_succeeded()
    assert isinstance(second.error, Conflict)
    assert leader.values() == [b"a", b"b"]


def test_a_batch_that_was_sent_twice_by_the_same_attempt_is_its_own() -> None:
    leader = Leader(stamps_itself=False)
    only = Attempt(0, leader, letters("ab"), [1])
    only.go_on(2)  # written, and the answer is lost
    while only.is_open:
        only.go_on(3)
    assert only.has_succeeded()
    assert leader.values() == [b"a", b"b"]


def test_with_times_of_their_own_attempts_of_one_order_share_their_batches_and_others_are_told_apart() -> None:
    leader = Leader(stamps_itself=False)
    first, same, other = (Attempt(0, leader, letters(order), [1], has_timestamps=True) for order in ("ab", "ab", "ba"))
    for attempt in (first, same, other):
        while attempt.is_open:
            attempt.go_on(3)
    assert first.has_succeeded()
    assert same.has_succeeded()
    assert not other.has_succeeded()
    assert isinstance(other.error, Conflict)
    assert leader.values() == [b"a", b"b"]


def test_rows_that_differ_by_their_time_alone_are_two_rows() -> None:
    """The first attempt has written the later of them: the second must not take it for the earlier one."""
    leader = Leader(stamps_itself=False)
    first = Attempt(0, leader, [Row(b"a", 2)], [1], has_timestamps=True)
    while first.is_open:
        first.go_on(3)
    second = Attempt(1, leader, [Row(b"a", 1), Row(b"a", 2)], [1], has_timestamps=True)
    while second.is_open:
        second.go_on(3)
    assert second.has_succeeded()
    assert Counter(leader.rows()) == Counter([Row(b"a", 1), Row(b"a", 2)])
