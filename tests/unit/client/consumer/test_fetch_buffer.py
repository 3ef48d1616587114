"""The buffer between fetcher and user: order, limits, transactions, and what is dropped."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from ottla.client.consumer import unpacking
from ottla.client.consumer.fetch_buffer import FetchBuffer, Fetched, RawBatch
from ottla.client.consumer.partition_state import PartitionState, Position, Status
from ottla.client.consumer.subscription_state import SubscriptionState
from ottla.client.consumer.unpacking import AheadBatch, Helper
from ottla.client.errors import CorruptRecord
from ottla.records import (
    Codec,
    ControlType,
    EndTransactionMarker,
    RecordBatchBuilder,
    TimestampType,
    end_transaction_batch,
)
from ottla.types import TopicPartition
from ottla.wire.messages.fetch import AbortedTransaction

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def batch(
    offsets: Sequence[int], *, codec: Codec = Codec.NONE, producer_id: int = -1, epoch: int = 3, gap: int = 0
) -> bytes:
    """A batch with records at these offsets; `gap` offsets at its end have been compacted away."""
    builder = RecordBatchBuilder(
        base_offset=offsets[0],
        codec=codec,
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )
    for offset in offsets:
        builder.append(1000 + offset, None, b"%d" % offset, offset=offset)
    made = bytearray(builder.build())
    if gap:
        from ottla.records import crc32c

        made[23:27] = (offsets[-1] - offsets[0] + gap).to_bytes(4, "big")
        made[17:21] = crc32c(bytes(made[21:])).to_bytes(4, "big")
    return bytes(made)


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    kind = ControlType.COMMIT if is_commit else ControlType.ABORT
    return end_transaction_batch(
        EndTransactionMarker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=offset
    )


class Consumer:
    """A buffer with its subscription."""

    def __init__(self, *partitions: TopicPartition, is_read_committed: bool = False, check_crcs: bool = True) -> None:
        self.subscription = SubscriptionState()
        self.subscription.assign_by_user(partitions or [A0])
        self.buffer = FetchBuffer(self.subscription)
        self.is_read_committed = is_read_committed
        self.check_crcs = check_crcs
        self.drained = 0
        self.buffer.on_drained = self._on_drained
        for state in self.subscription.partitions.values():
            state.seek_validated(Position(0))

    def _on_drained(self) -> None:
        self.drained += 1

    def state(self, partition: TopicPartition = A0) -> PartitionState:
        return self.subscription.state(partition)

    def fetch(self, data: bytes, aborted: Sequence[AbortedTransaction] = (), partition: TopicPartition = A0) -> Fetched:
        state = self.state(partition)
        position = state.fetch_position
        assert position is not None
        fetched = Fetched(
            state,
            position,
            data,
            list(aborted),
            is_read_committed=self.is_read_committed,
            check_crcs=self.check_crcs,
        )
        state.arrived_end = fetched.end()
        self.buffer.put(fetched)
        return fetched

    def take(self, limit: int = 1000) -> list[int]:
        records, is_final = self.buffer.take(limit)
        assert not is_final
        return [record.offset for record in records]


# Taking


@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_in_order_whatever_the_limits(codec: Codec) -> None:
    chance = random.Random(codec.name)
    for _ in range(30):
        consumer = Consumer()
        offset, expected = 0, []
        for _ in range(chance.randrange(1, 4)):
            data = b""
            for _ in range(chance.randrange(1, 4)):
                offsets = sorted(chance.sample(range(offset, offset + 20), chance.randrange(1, 12)))
                gap = chance.randrange(3)
                data += batch(offsets, codec=codec, gap=gap)
                expected += offsets
                offset = offsets[-1] + 1 + gap
            consumer.fetch(data + data[: chance.randrange(61)])  # the beginning of a batch that was cut off
        found: list[int] = []
        while taken := consumer.take(chance.randrange(1, 9)):
            found += taken
            position = consumer.state().position
            assert position is not None
            assert taken[-1] < position.offset
        assert found == expected
        assert consumer.state().position == Position(offset, 3)
        assert consumer.state().buffered_count == 0
        assert consumer.state().buffered_bytes == 0


def test_a_fetch_that_begins_within_a_batch_gives_what_is_behind_the_position() -> None:
    consumer = Consumer()
    consumer.state().seek_validated(Position(7))
    consumer.fetch(batch([0, 1]) + batch(range(5, 10)))
    assert consumer.take() == [7, 8, 9]


def test_records_have_the_time_and_the_epoch_of_their_batch() -> None:
    consumer = Consumer()
    consumer.fetch(batch([0, 1], epoch=9))
    records, _ = consumer.buffer.take(5)
    assert [(one.topic, one.partition, one.timestamp, one.leader_epoch) for one in records] == [
        ("a", 0, 1000, 9),
        ("a", 0, 1001, 9),
    ]
    assert records[0].timestamp_type is TimestampType.CREATE_TIME


def test_a_fetch_of_the_next_part_follows_the_buffered_one() -> None:
    consumer = Consumer()
    consumer.fetch(batch([0, 1, 2]))
    assert consumer.state().fetch_position == Position(3, 3)
    consumer.fetch(batch([3, 4]))
    assert consumer.state().buffered_count == 2
    assert consumer.take(4) == [0, 1, 2, 3]
    assert consumer.state().buffered_count == 1
    assert consumer.state().fetch_position == Position(5, 3)
    assert consumer.take() == [4]
    assert consumer.drained == 2
    consumer.fetch(batch([5]))
    consumer.fetch(batch([6]))
    assert consumer.take() == [5, 6]
    assert consumer.drained == 3  # once a take, however many fetches it has emptied


def test_first_come_first_served_among_partitions() -> None:
    consumer = Consumer(A0, A1)
    consumer.fetch(batch([0, 1]), partition=A1)
    consumer.fetch(batch([0, 1, 2]), partition=A0)
    records, _ = consumer.buffer.take(4)
    assert [(one.partition, one.offset) for one in records] == [(1, 0), (1, 1), (0, 0), (0, 1)]


def test_paused_partitions_are_passed_by_and_keep_their_order() -> None:
    consumer = Consumer(A0, A1)
    consumer.fetch(batch([0, 1]), partition=A0)
    consumer.fetch(batch([2, 3]), partition=A0)
    consumer.fetch(batch([0]), partition=A1)
    assert consumer.take(1) == [0]
    consumer.state(A0).is_paused = True
    assert consumer.take() == [0]
    assert consumer.take() == []
    consumer.state(A0).is_paused = False
    assert consumer.take() == [1, 2, 3]


def test_what_does_not_fit_the_position_is_dropped() -> None:
    consumer = Consumer()
    consumer.fetch(batch([0, 1, 2]))
    consumer.fetch(batch([3, 4, 5]))
    consumer.state().seek(Position(3))
    assert consumer.take() == [3, 4, 5]
    consumer.fetch(batch([6]))
    consumer.state().status = Status.AWAIT_VALIDATION
    assert consumer.take() == []
    assert consumer.state().buffered_count == 0
    consumer.state().status = Status.FETCHING
    consumer.state().arrived_end = None
    consumer.fetch(batch([6]))
    consumer.subscription.unsubscribe()
    consumer.subscription.assign_by_user([A0])
    consumer.state().seek_validated(Position(6))
    assert consumer.take() == []


# Giving back


def test_what_was_not_used_comes_again_before_everything_else() -> None:
    consumer = Consumer(A0, A1)
    consumer.fetch(batch([0, 1, 2, 5], gap=3), partition=A0)
    consumer.fetch(batch([0, 1]), partition=A1)
    records, _ = consumer.buffer.take(5)
    assert [(one.partition, one.offset) for one in records] == [(0, 0), (0, 1), (0, 2), (0, 5), (1, 0)]
    consumer.buffer.give_back(records[2:], is_final=True)
    assert consumer.state(A0).position == Position(2, 3)
    assert consumer.state(A1).position == Position(0, 3)
    again, is_final = consumer.buffer.take(1)
    assert is_final
    assert again == records[2:3]
    again, is_final = consumer.buffer.take(10)
    assert (again, is_final) == (records[3:4], True)
    assert consumer.state(A0).position == Position(9, 3)
    again, is_final = consumer.buffer.take(10)
    assert (again, is_final) == (records[4:], True)
    rest, is_final = consumer.buffer.take(10)
    assert ([one.offset for one in rest], is_final) == ([1], False)


def test_what_was_given_back_is_not_fetched_again() -> None:
    consumer = Consumer()
    consumer.state().seek(Position(0))
    consumer.fetch(batch([0, 1, 2]))
    records, _ = consumer.buffer.take(3)
    consumer.state().seek(Position(3))
    consumer.buffer.give_back(records[1:], is_final=True)
    assert consumer.state().position == Position(1, 3)
    assert consumer.state().fetch_position == Position(3)


def test_what_was_given_back_is_dropped_by_a_seek() -> None:
    consumer = Consumer()
    consumer.fetch(batch([0, 1, 2]))
    records, _ = consumer.buffer.take(3)
    consumer.buffer.give_back(records[1:], is_final=True)
    consumer.state().seek(Position(0))
    assert consumer.buffer.take(10) == ([], False)
    assert consumer.state().buffered_count == 0


# Damage


def test_a_checksum_that_does_not_match_is_told_behind_what_came_before() -> None:
    damaged = bytearray(batch([2, 3]))
    damaged[-2] ^= 1
    consumer = Consumer()
    consumer.fetch(batch([0, 1]) + bytes(damaged) + batch([4]))
    assert consumer.take() == [0, 1]
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="checksum") as raised:
            consumer.take()
        assert (raised.value.topic_partition, raised.value.offset) == (A0, 2)
    consumer.state().seek(Position(4))
    assert consumer.take() == []
    unchecked = Consumer(check_crcs=False)
    unchecked.fetch(bytes(damaged))
    unchecked.state().position = Position(0)
    assert unchecked.take() == [2, 3]


def test_every_damaged_byte_is_an_error_or_no_record_at_all() -> None:
    whole = batch([0, 1]) + batch([2, 3], codec=Codec.GZIP)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x41
        consumer = Consumer()
        state = consumer.state()
        fetched = Fetched(state, Position(0), bytes(damaged), None, is_read_committed=False, check_crcs=True)
        if fetched.end() is None:
            continue
        consumer.buffer.put(fetched)
        found: list[int] = []
        try:
            while taken := consumer.take(1):
                found += taken
        except CorruptRecord:
            pass
        # The base offset, the leader epoch and the length lie outside of the checksum; the values do not.
        assert len(found) <= 4
        assert all(isinstance(offset, int) for offset in found)


# Transactions


def test_aborted_transactions_and_all_marks_are_left_out() -> None:
    data = (
        batch([0, 1], producer_id=1)
        + batch([2], producer_id=2)
        + batch([3])
        + batch([4], producer_id=1)
        + marker(5, 1, is_commit=False)
        + batch([6], producer_id=1)
        + marker(7, 2, is_commit=True)
        + marker(8, 1, is_commit=True)
    )
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
    reader = Consumer(is_read_committed=True)
    reader.fetch(data, aborted)
    assert reader.take(3) == [2, 3, 6]
    assert reader.take() == []
    assert reader.state().position == Position(9, -1)
    everything = Consumer()
    everything.fetch(data, aborted)
    assert everything.take(6) == [0, 1, 2, 3, 4, 6]
    assert everything.state().position == Position(7, 3)
    assert everything.take() == []
    assert everything.state().position == Position(9, -1)


def test_a_transaction_is_aborted_from_its_first_offset_on_and_not_before() -> None:
    data = (
        batch([0], producer_id=1)
        + marker(1, 1, is_commit=True)
        + batch([2], producer_id=1)
        + marker(3, 1, is_commit=False)
    )
    reader = Consumer(is_read_committed=True)
    reader.fetch(data, [AbortedTransaction(producer_id=1, first_offset=2)])
    assert reader.take() == [0]
    assert reader.state().position == Position(4, -1)


# Batches as they came


def test_batches_are_given_undecoded_from_where_the_user_stands() -> None:
    consumer = Consumer(A0, A1)
    consumer.fetch(batch([0, 1, 2]) + batch([3, 4]), partition=A0)
    consumer.fetch(batch([0]), partition=A1)
    assert consumer.take(2) == [0, 1]
    taken = consumer.buffer.take_batches(10_000)
    assert [
        (state.topic_partition, [(one.batch.base_offset, one.start_offset) for one in batches])
        for state, batches in taken
    ] == [(A0, [(0, 2), (3, 3)]), (A1, [(0, 0)])]
    assert consumer.state(A0).position == Position(5, 3)
    assert consumer.buffer.take_batches(10_000) == []
    assert consumer.drained == 1


@pytest.mark.parametrize(("codec", "expected"), [(Codec.NONE, [A0, A1]), (Codec.LZ4, [A0])])
def test_compressed_batches_count_for_what_they_may_become(codec: Codec, expected: list[TopicPartition]) -> None:
    consumer = Consumer(A0, A1)
    first = batch([0, 1, 2], codec=codec)
    consumer.fetch(first, partition=A0)
    consumer.fetch(batch([0]), partition=A1)
    taken = consumer.buffer.take_batches(len(first) + 1)
    assert [state.topic_partition for state, _ in taken] == expected


def test_batches_stop_before_a_damaged_one() -> None:
    damaged = bytearray(batch([2, 3]))
    damaged[-2] ^= 1
    consumer = Consumer()
    consumer.fetch(batch([0, 1]) + bytes(damaged))
    [(_, [first])] = consumer.buffer.take_batches(1)
    assert first.batch.base_offset == 0
    with pytest.raises(CorruptRecord):
        consumer.buffer.take_batches(1)
    assert consumer.state().position == Position(2, 3)


# Unpacked ahead


@pytest.fixture
def helper(monkeypatch: pytest.MonkeyPatch) -> Helper:
    """One that is at once done with all it can do, a batch at a time."""
    monkeypatch.setattr(unpacking, "PORTION_BYTES", 1)
    return Helper(lambda work: work())


def close(taken: Sequence[tuple[PartitionState, Sequence[RawBatch]]]) -> None:
    for _, batches in taken:
        for one in batches:
            if isinstance(one.batch, AheadBatch):
                one.batch.unpacking.close()


def test_what_was_unpacked_ahead_is_what_the_batches_hold(helper: Helper) -> None:
    """Among batches that are not compressed, behind a position within a batch, and after records were taken."""
    data = batch([0, 1], codec=Codec.ZSTD) + batch([2, 3]) + b"".join(
        batch([offset, offset + 1], codec=Codec.LZ4) for offset in range(4, 20, 2)
    )  # fmt: skip
    consumer = Consumer()
    consumer.buffer.helper = helper
    consumer.fetch(data)
    assert helper.ready_bytes > 0
    assert consumer.take(1) == [0]
    [(_, batches)] = taken = consumer.buffer.take_batches(1)
    assert [
        offset for one in batches for offset, *_ in one.batch.rows() if offset >= one.start_offset
    ] == list(range(1, 20))  # fmt: skip
    assert [isinstance(one.batch, AheadBatch) for one in batches] == [True, False, *[True] * 8]
    close(taken)
    assert helper.ready_bytes == 0


def test_what_was_unpacked_and_is_not_wanted_any_more_makes_room(helper: Helper) -> None:
    damaged = bytearray(batch([0, 1], codec=Codec.LZ4))
    damaged[20] ^= 1
    more = b"".join(batch([offset], codec=Codec.LZ4) for offset in range(2, 9))
    for way in ("seek", "clear", "damage"):
        consumer = Consumer()
        consumer.buffer.helper = helper
        consumer.fetch((bytes(damaged) if way == "damage" else batch([0, 1], codec=Codec.LZ4)) + more)
        assert helper.ready_bytes > 0
        if way == "seek":
            consumer.state().seek_validated(Position(5))
            assert consumer.buffer.take_batches(1) == []
        elif way == "clear":
            consumer.buffer.clear()
        else:
            with pytest.raises(CorruptRecord, match="checksum"):
                consumer.buffer.take_batches(1)
        assert helper.ready_bytes == 0, way
