"""The loader: who is told what, in which order, and never the middle of a transaction."""

from __future__ import annotations

import logging

import pytest

from ottla.metadata import Delta, Image, ImageLoader, ReplayError, SnapshotGenerator
from ottla.raft import CommittedBatch
from ottla.sim.world import virtual_node_world
from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    TopicRecord,
    VersionedRecord,
)


class Listening:
    """A publisher that keeps what it is told, in a list that others may share."""

    def __init__(self, name: str, told: list[tuple[str, Delta, Image]]) -> None:
        self.name = name
        self.told = told

    def on_metadata(self, delta: Delta, image: Image) -> None:
        self.told.append((self.name, delta, image))


def level(number: int = 30) -> FeatureLevelRecord:
    return FeatureLevelRecord(name="metadata.version", feature_level=number)


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=Uuid(name.encode().ljust(16, b".")))


def batch(base: int, *records: Message, epoch: int = 1) -> CommittedBatch:
    versioned = [VersionedRecord(record, 0) for record in records]
    return CommittedBatch(base, base + max(len(records), 1) - 1, epoch, 1000 + base, versioned, 100)


def names(image: Image) -> list[str]:
    return list(image.topics.by_name)


def test_publishers_are_told_in_the_order_they_were_added_and_late_ones_get_it_all() -> None:
    told: list[tuple[str, Delta, Image]] = []
    loader = ImageLoader("cluster")
    loader.add_publisher(Listening("first", told))
    loader.add_publisher(Listening("second", told))
    assert not told, "there is nothing to tell yet"
    loader.on_commit([batch(0), batch(1, level(), topic("a")), batch(3, topic("b"))])
    assert [(name, names(image), image.offset) for name, _, image in told] == [
        ("first", ["a", "b"], 3),
        ("second", ["a", "b"], 3),
    ]
    assert told[0][2] is told[1][2] is loader.image
    loader.on_commit([batch(4, topic("c"))])
    told.clear()
    late = Listening("late", told)
    loader.add_publisher(late)
    (_, delta, image) = told[0]
    assert names(image) == ["a", "b", "c"]
    assert delta.is_snapshot
    assert len(delta.changed_topics) == 3
    assert delta.changed_features == {"metadata.version": 30}
    loader.remove_publisher(late)
    told.clear()
    loader.on_commit([batch(5, NoOpRecord())])
    assert [name for name, _, _ in told] == ["first", "second"]
    assert told[0][1].changed_topics == {}
    assert (loader.image.offset, loader.image.epoch, loader.image.timestamp_ms) == (5, 1, 1005)


def test_a_transaction_is_published_whole_and_what_came_before_it_by_itself() -> None:
    told: list[tuple[str, Delta, Image]] = []
    loader = ImageLoader("cluster")
    loader.add_publisher(Listening("one", told))
    loader.on_commit([batch(0, level(), topic("a"), BeginTransactionRecord(name="x"), topic("b"))])
    assert [(names(image), image.offset, delta.is_batch_aligned) for _, delta, image in told] == [(["a"], 1, False)]
    loader.on_commit([batch(4, topic("c"))])
    assert len(told) == 1, "the transaction is still open"
    loader.on_commit([batch(5, EndTransactionRecord(), topic("d"))])
    assert [(names(image), image.offset) for _, _, image in told[1:]] == [(["a", "b", "c", "d"], 6)]
    assert told[1][1].is_batch_aligned


def test_a_transaction_that_is_aborted_never_was(caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[str, Delta, Image]] = []
    loader = ImageLoader("cluster")
    loader.add_publisher(Listening("one", told))
    loader.on_commit([batch(0, level(), topic("a"))])
    with caplog.at_level(logging.INFO):
        loader.on_commit(
            [batch(2, BeginTransactionRecord(), topic("b")), batch(4, AbortTransactionRecord(reason="no"))]
        )
    assert "was aborted: no" in caplog.text
    assert names(loader.image) == ["a"]
    assert loader.image.offset == 4
    loader.on_commit([batch(5, topic("b"))])
    assert names(loader.image) == ["a", "b"]


@pytest.mark.parametrize(
    "records",
    [
        [BeginTransactionRecord(), BeginTransactionRecord()],
        [EndTransactionRecord()],
        [AbortTransactionRecord()],
    ],
)
def test_transactions_that_do_not_nest_are_refused(records: list[Message]) -> None:
    with pytest.raises(ReplayError, match="transaction"):
        ImageLoader("cluster").on_commit([batch(0, *records)])


def test_a_snapshot_replaces_everything_and_what_it_lacks_is_told_as_gone() -> None:
    told: list[tuple[str, Delta, Image]] = []
    loader = ImageLoader("cluster")
    loader.add_publisher(Listening("one", told))
    loader.on_commit([batch(0, level(), topic("a"), topic("b"))])
    records = [VersionedRecord(record, 0) for record in (level(), topic("b"), topic("c"))]
    loader.on_snapshot(records, offset=20, epoch=3, timestamp_ms=77)
    (_, delta, image) = told[-1]
    assert (names(image), image.offset, image.epoch, image.timestamp_ms) == (["b", "c"], 20, 3, 77)
    assert [gone.name for gone in delta.deleted_topics.values()] == ["a"]
    assert delta.is_snapshot
    loader.on_commit([batch(21, topic("d"), epoch=3)])
    assert names(loader.image) == ["b", "c", "d"]


class Store:
    """A place for snapshots."""

    def __init__(self) -> None:
        self.snapshot_due: str | None = None
        self.made: list[tuple[int, int, int]] = []
        self.fails = False

    async def create_snapshot(self, offset: int, epoch: int, records: object) -> None:
        if self.fails:
            raise OSError("disk full")
        self.made.append((offset, epoch, len(list(records))))  # type: ignore[call-overload]


def test_a_snapshot_is_made_when_it_is_due_and_never_of_half_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    world = virtual_node_world(1)
    store = Store()
    loader = ImageLoader("cluster")
    loader.add_publisher(SnapshotGenerator(world.tasks, store))

    def commit(*batches: CommittedBatch) -> None:
        loader.on_commit(list(batches))
        world.loop.run_until_complete(world.tasks.sleep_ms(5))

    commit(batch(0, level()))
    assert not store.made
    store.snapshot_due = "we have replayed at least 1 bytes"
    commit(batch(1, topic("a"), BeginTransactionRecord(), topic("b")))
    assert not store.made, "the image ends inside a batch"
    store.fails = True
    commit(batch(4, EndTransactionRecord()))
    assert "The snapshot at offset 5 failed" in caplog.text
    store.fails = False
    commit(batch(5, NoOpRecord()))
    assert store.made == [(6, 1, 3)]
    world.life.end()
    world.loop.close()
