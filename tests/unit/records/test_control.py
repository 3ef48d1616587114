"""`ottla/records/control.py`: the marks between records."""

from __future__ import annotations

import pytest

from ottla.errors import InvalidRecord
from ottla.records import ControlType, EndTransactionMarker, control_batch, end_transaction_batch
from tests.unit.records.samples import only

KNOWN = [kind for kind in ControlType if kind is not ControlType.UNKNOWN]


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.name)
def test_a_type_is_known_by_its_key(kind: ControlType) -> None:
    assert kind.key == b"\0\0" + int(kind).to_bytes(2, "big")
    assert ControlType.of_key(kind.key) is kind


def test_a_key_of_a_newer_kafka_is_read_for_what_is_known_of_it() -> None:
    assert ControlType.of_key(b"\0\1\0\1more") is ControlType.COMMIT
    assert ControlType.of_key(b"\0\0\0\7") is ControlType.UNKNOWN
    assert ControlType.of_key(b"\0\0\xff\xff") is ControlType.UNKNOWN


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_a_key_that_is_none_is_refused(key: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        ControlType.of_key(key)


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_the_end_of_a_transaction_is_one_control_record_of_its_producer(kind: ControlType) -> None:
    marker = EndTransactionMarker(kind, coordinator_epoch=12)
    data = end_transaction_batch(
        marker, producer_id=900, producer_epoch=3, timestamp=1700000000000, base_offset=44, leader_epoch=2
    )
    batch = only(data)
    assert (batch.is_control, batch.is_transactional, batch.record_count) == (True, True, 1)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (900, 3, -1)
    assert (batch.base_offset, batch.leader_epoch, batch.max_timestamp) == (44, 2, 1700000000000)
    (record,) = batch.records()
    assert EndTransactionMarker.decode(record.key, record.value) == marker
    assert record.value == b"\0\0\0\0\0\x0c"


def test_the_value_of_a_newer_marker_is_read_for_what_is_known_of_it() -> None:
    marker = EndTransactionMarker.decode(ControlType.ABORT.key, b"\0\5\0\0\0\1and more")
    assert marker == EndTransactionMarker(ControlType.ABORT, 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (ControlType.COMMIT.key, None),
        (ControlType.COMMIT.key, b"\0\0\0\0\0"),
        (ControlType.COMMIT.key, b"\xff\xff\0\0\0\1"),
        (ControlType.LEADER_CHANGE.key, b"\0\0\0\0\0\1"),
        (b"\0\0\0\x63", b"\0\0\0\0\0\1"),
        (None, b"\0\0\0\0\0\1"),
    ],
)
def test_a_record_that_ends_no_transaction_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        EndTransactionMarker.decode(key, value)


def test_only_a_commit_or_an_abort_ends_a_transaction() -> None:
    with pytest.raises(ValueError, match="LEADER_CHANGE"):
        EndTransactionMarker(ControlType.LEADER_CHANGE, 0)


def test_a_mark_of_the_raft_log_has_no_producer() -> None:
    batch = only(control_batch(ControlType.LEADER_CHANGE, b"message", timestamp=5, base_offset=3, leader_epoch=7))
    assert (batch.is_control, batch.is_transactional, batch.has_producer_id) == (True, False, False)
    (record,) = batch.records()
    assert (ControlType.of_key(record.key), record.value) == (ControlType.LEADER_CHANGE, b"message")
