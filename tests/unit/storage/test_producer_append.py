"""Batches tried on a copy: what the transcripts of `producer_state` do not reach."""

from __future__ import annotations

import logging

import pytest

from ottla.errors import InvalidRecord
from ottla.records import Batch, ControlType, batches, control_batch, empty_batch, end_transaction_batch
from ottla.records import EndTransactionMarker as Marker
from ottla.storage.offset_metadata import OffsetMetadata
from ottla.storage.producer_append import (
    TRANSACTION_VERSION_UNKNOWN,
    CompletedTxn,
    ProducerAppend,
    TxnMetadata,
    is_next_sequence,
)
from ottla.storage.producer_entry import ProducerStateEntry
from ottla.storage.validator import AppendOrigin
from ottla.types import TopicPartition

PARTITION = TopicPartition("topic", 0)


def tried(origin: AppendOrigin = AppendOrigin.REPLICATION, *, epoch: int = 0) -> ProducerAppend:
    return ProducerAppend(PARTITION, ProducerStateEntry(1, epoch, 5, 0, txn_first_offset=3), origin, None)


def control(key: ControlType, value: bytes) -> Batch:
    data = control_batch(
        key, value, timestamp=77, base_offset=9, producer_id=1, producer_epoch=0, is_transactional=True
    )
    return next(batches(data))


def marker(kind: ControlType = ControlType.COMMIT, *, epoch: int = 0, coordinator_epoch: int = 6) -> Batch:
    data = end_transaction_batch(
        Marker(kind, coordinator_epoch), producer_id=1, producer_epoch=epoch, timestamp=77, base_offset=9
    )
    return next(batches(data))


def append(target: ProducerAppend, batch: Batch, version: int = TRANSACTION_VERSION_UNKNOWN) -> CompletedTxn | None:
    return target.append(batch, OffsetMetadata(batch.base_offset), version)


def test_a_marker_completes_the_open_transaction() -> None:
    target = tried()
    assert append(target, marker(ControlType.ABORT)) == CompletedTxn(1, 3, 9, True)
    assert target.updated.txn_first_offset is None
    assert (target.updated.coordinator_epoch, target.updated.last_timestamp) == (6, 77)
    assert append(tried(), marker(ControlType.COMMIT)) == CompletedTxn(1, 3, 9, False)


def test_a_control_batch_that_compaction_has_emptied_ends_nothing() -> None:
    target = tried()
    emptied = next(batches(empty_batch(marker())))
    assert append(target, emptied) is None
    assert target.updated.txn_first_offset == 3


def test_a_newer_marker_is_read_for_what_is_known_of_it() -> None:
    target = tried()
    assert append(target, control(ControlType.ABORT, b"\x00\x01\x00\x00\x00\x08more")) == CompletedTxn(1, 3, 9, True)
    assert target.updated.coordinator_epoch == 8


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ControlType.COMMIT, b""),
        (ControlType.COMMIT, b"\x00\x00\x00\x00\x00"),
        (ControlType.ABORT, b"\xff\xff\x00\x00\x00\x00"),
        (ControlType.LEADER_CHANGE, b"\x00\x00\x00\x00\x00\x00"),
    ],
)
def test_a_control_record_that_ends_no_transaction_is_refused(kind: ControlType, value: bytes) -> None:
    with pytest.raises(InvalidRecord):
        append(tried(), control(kind, value))


@pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.RAFT_LEADER])
def test_only_a_leaders_marker_may_come_without_its_transaction_version(origin: AppendOrigin) -> None:
    with pytest.raises(AssertionError, match="has a transaction version"):
        append(tried(origin), marker())


def test_what_a_replica_takes_against_the_rules_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        append(tried(epoch=4), marker(epoch=3, coordinator_epoch=4))
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "[ProducerState topic-0] Epoch of producer 1 at offset 9 in topic-0 is 3" in caplog.text
    assert "Coordinator epoch of producer 1 at offset 9 in topic-0 is 4" in caplog.text


def test_after_the_largest_sequence_comes_zero() -> None:
    assert is_next_sequence(4, 5)
    assert is_next_sequence(-1, 0)
    assert is_next_sequence(2**31 - 1, 0)
    assert not is_next_sequence(4, 0)
    assert not is_next_sequence(4, 4)


def test_a_transaction_prints_where_it_is() -> None:
    assert repr(TxnMetadata(1, OffsetMetadata(5))) == (
        "TxnMetadata(1, OffsetMetadata(offset=5, segment_base_offset=-1, position=-1), last_offset=None)"
    )
