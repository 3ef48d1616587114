"""The framing of coordinators' records and of other messages behind their version."""

from __future__ import annotations

import json

import pytest

from ottla.wire import DecodeError, UnknownRecord, encode, message_class, read_versioned, write_versioned
from ottla.wire.coordinator import GROUP, SHARE, TRANSACTION, CoordinatorRecords
from ottla.wire.coordinator.offsets import OffsetCommitKey, OffsetCommitValue
from ottla.wire.coordinator.transaction import TransactionLogKey, TransactionLogValue
from ottla.wire.data.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.data.principal import DefaultPrincipalData
from tests.support.golden import GOLDEN

FAMILIES = [GROUP, TRANSACTION, SHARE]


def test_every_record_type_of_kafka_belongs_to_one_topic() -> None:
    facts = json.loads((GOLDEN / "kafka-facts" / "coordinator-records.json").read_text())
    expected = {(row["apiKey"], row["name"]) for row in facts if row["type"] == "coordinator-key"}
    found = [(number, f"{name}Key") for family in FAMILIES for number, name in family.names.items()]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.topic)
def test_every_key_and_value_is_written_and_read_in_every_version(family: CoordinatorRecords) -> None:
    for number, name in family.names.items():
        key, value = message_class(f"{name}Key"), message_class(f"{name}Value")
        written = family.write_key(key())
        assert written == number.to_bytes(2, "big") + encode(key(), 0)
        assert family.read_key(written) == key()
        for version in range(value.schema.versions.first, value.schema.versions.last + 1):
            framed = family.write_value(value(), version)
            assert framed[:2] == version.to_bytes(2, "big")
            assert family.read_value(key(), framed) == (value(), version)


def test_an_offset_commit_is_kafkas_byte_for_byte() -> None:
    key = OffsetCommitKey("g", "t", 3)
    assert GROUP.write_key(key).hex() == "000100016700017400000003"
    value = OffsetCommitValue(offset=9, leader_epoch=-1, metadata="m", commit_timestamp=5)
    assert GROUP.write_value(value, 3).hex() == (
        "0003" "0000000000000009" "ffffffff" "0001" "6d" "0000000000000005"
    )  # fmt: skip


def test_a_record_of_a_newer_kafka_is_told_apart() -> None:
    with pytest.raises(UnknownRecord, match=r"key\.type at byte 0: 99 is no known type of __consumer_offsets"):
        GROUP.read_key(b"\0\x63rest")
    with pytest.raises(
        UnknownRecord, match=r"TransactionLogValue\.version at byte 0: version 7 is not known, only 0-1"
    ):
        TRANSACTION.read_value(TransactionLogKey(), b"\0\7rest")


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\1", b"\0\1\0\5abc"])
def test_a_damaged_key_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        GROUP.read_key(data)


def test_positions_count_from_the_start_of_the_frame() -> None:
    with pytest.raises(DecodeError) as caught:
        GROUP.read_key(b"\0\1\0\5abc")
    assert (caught.value.path, caught.value.position) == ("OffsetCommitKey.group", 2)


def test_bytes_after_a_value_are_let_pass_as_kafka_does() -> None:
    framed = TRANSACTION.write_value(TransactionLogValue(producer_id=5), 1) + b"more"
    assert TRANSACTION.read_value(TransactionLogKey(), framed) == (TransactionLogValue(producer_id=5), 1)


def test_a_key_of_another_topic_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="OffsetCommitKey is no key of __transaction_state"):
        TRANSACTION.write_key(OffsetCommitKey())
    with pytest.raises(AssertionError, match="OffsetCommitValue is no key of __consumer_offsets"):
        GROUP.write_key(OffsetCommitValue())


def test_a_principal_travels_behind_its_version() -> None:
    principal = DefaultPrincipalData("User", "alice", True)
    assert write_versioned(principal, 0).hex() == "0000055573657206616c6963650100"
    assert read_versioned(DefaultPrincipalData, write_versioned(principal, 0)) == (principal, 0)


def test_a_subscription_of_a_newer_consumer_is_read_as_the_newest_known() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], generation_id=4, rack_id="r")
    newer = b"\0\x09" + write_versioned(subscription, 3)[2:] + b"a field of the future"
    assert read_versioned(ConsumerProtocolSubscription, newer, newer=True) == (subscription, 3)
    with pytest.raises(UnknownRecord, match="version 9 is not known, only 0-3"):
        read_versioned(ConsumerProtocolSubscription, newer)
    with pytest.raises(UnknownRecord, match="version -1 is not known"):
        read_versioned(ConsumerProtocolSubscription, b"\xff\xff", newer=True)
