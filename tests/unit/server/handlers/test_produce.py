"""Produce, as a client sees it: every refusal with its code, and one bad partition leaves the others whole."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from ottla.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTimestamp,
    InvalidTopicException,
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    RequestTimedOut,
    TransactionalIdAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from ottla.records import Codec
from ottla.server import CloseConnection
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.logs import make_batch
from tests.unit.replica.node import NODE_ID, TestNode, topic_id

NOW = 1_767_225_600_000
LATEST = 13


def request(
    *partitions: tuple[str, int, bytes | None],
    version: int = LATEST,
    acks: int = -1,
    transactional_id: str | None = None,
    uuid: Uuid | None = None,
) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name if version < 13 else "",
                ZERO_UUID if version < 13 else uuid or topic_id(name),
                [PartitionProduceData(index, records)],
            )
            for name, index, records in partitions
        ],
    )


def produce(
    node: TestNode, *partitions: tuple[str, int, bytes | None], version: int = LATEST, **options: Any
) -> list[PartitionProduceResponse]:
    response = node.send(request(*partitions, version=version, **options), version)
    assert isinstance(response, ProduceResponse)
    return [one for topic in response.responses for one in topic.partition_responses]


def batch(*values: bytes, **settings: Any) -> bytes:
    return make_batch(*(values or (b"v",)), **settings)


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends_and_tells_the_offset(version: int) -> None:
    node = TestNode()
    node.create_topic("t")
    produce(node, ("t", 0, batch(b"a", b"b")), version=version)
    (answer,) = produce(node, ("t", 0, batch()), version=version)
    assert (answer.index, answer.error_code, answer.base_offset) == (0, 0, 2)
    assert answer.log_append_time_ms == -1


def test_one_bad_partition_leaves_the_others_whole() -> None:
    node = TestNode()
    node.create_topic("t", 3)
    damaged = bytearray(batch())
    damaged[-1] ^= 1
    answers = produce(node, ("t", 0, batch()), ("t", 1, bytes(damaged)), ("t", 7, batch()), ("t", 2, batch()))
    assert [one.error_code for one in answers] == [0, CorruptMessage.code, UnknownTopicOrPartition.code, 0]
    assert [one.base_offset for one in answers] == [0, -1, -1, 0]


def test_of_a_partition_named_twice_the_last_records_count() -> None:
    node = TestNode()
    node.create_topic("t", 2)
    answers = produce(node, ("t", 0, batch(b"1")), ("t", 1, batch()), ("t", 0, batch(b"2", b"3")))
    assert [(one.index, one.error_code, one.base_offset) for one in answers] == [(0, 0, 0), (1, 0, 0)]
    assert node.partition("t", 0).local_log().log_end_offset == 2


def test_unknown_topics_have_the_code_of_how_they_were_named() -> None:
    node = TestNode()
    assert produce(node, ("x", 0, batch()))[0].error_code == UnknownTopicId.code
    assert produce(node, ("x", 0, batch()), version=12)[0].error_code == UnknownTopicOrPartition.code


def test_a_topic_made_anew_is_not_written_to_under_its_old_id() -> None:
    node = TestNode()
    node.create_topic("t")
    node.delete_topic("t")
    node.create_topic("t", uuid=Uuid(16 * b"\5"))
    assert produce(node, ("t", 0, batch()))[0].error_code == UnknownTopicId.code
    assert produce(node, ("t", 0, batch()), uuid=Uuid(16 * b"\5"))[0].error_code == 0


def test_a_partition_that_another_broker_leads_tells_which() -> None:
    node = TestNode()
    node.create_topic("t", replicas=(2, NODE_ID), leader_epoch=4)
    node.create_topic("away", replicas=(2,), leader_epoch=5)
    response = node.send(request(("t", 0, batch()), ("away", 0, batch())), LATEST)
    answers = [topic.partition_responses[0] for topic in response.responses]
    assert [one.error_code for one in answers] == [NotLeaderOrFollower.code] * 2
    assert [(one.current_leader.leader_id, one.current_leader.leader_epoch) for one in answers] == [(2, 4), (2, 5)]
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack) == (2, "host-2", 9092, "r2")
    older = node.send(request(("t", 0, batch()), version=9), 9)
    assert older.responses[0].partition_responses[0].current_leader is None


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, InvalidRecord),
        (b"", InvalidRecord),
        (batch() + batch(), InvalidRecord),
        (batch()[:-1], InvalidRecord),
        (bytes(8) + b"\0\0\0\1" + bytes(60), CorruptMessage),
    ],
    ids=["null", "empty", "two-batches", "cut-off", "no-batch"],
)
def test_what_is_not_one_whole_batch_is_refused(records: bytes | None, error: type[Exception]) -> None:
    node = TestNode()
    node.create_topic("t")
    assert produce(node, ("t", 0, records))[0].error_code == error.code  # type: ignore[attr-defined]
    assert produce(node, ("t", 0, batch()))[0].base_offset == 0


def test_zstd_is_for_clients_that_know_it() -> None:
    node = TestNode()
    node.create_topic("t")
    records = batch(codec=Codec.ZSTD)
    assert produce(node, ("t", 0, records), version=6)[0].error_code == UnsupportedCompressionType.code
    assert produce(node, ("t", 0, records), version=7)[0].error_code == 0


def test_a_batch_may_be_as_large_as_the_topic_allows() -> None:
    node = TestNode()
    node.create_topic("t", max_message_bytes=200)
    assert produce(node, ("t", 0, batch(b"v" * 50)))[0].error_code == 0
    (answer,) = produce(node, ("t", 0, batch(b"v" * 500)))
    assert (answer.error_code, answer.error_message) == (MessageTooLarge.code, None)


def test_records_without_a_key_are_named_on_a_compacted_topic() -> None:
    node = TestNode()
    node.create_topic("t", cleanup_policy="compact")
    (answer,) = produce(node, ("t", 0, make_batch(b"a", b"b", b"c", keys=[b"k", None, None])))
    assert answer.error_code == InvalidRecord.code
    assert [one.batch_index for one in answer.record_errors] == [1, 2]
    assert answer.error_message
    assert answer.log_start_offset == 0
    assert produce(node, ("t", 0, make_batch(b"a", key=b"k")))[0].error_code == 0


def test_a_timestamp_too_far_ahead_is_refused() -> None:
    node = TestNode()
    node.create_topic("t")
    (answer,) = produce(node, ("t", 0, batch(timestamp=node.world.clock.now_ms() + 7_200_000)))
    assert answer.error_code == InvalidTimestamp.code
    assert [one.batch_index for one in answer.record_errors] == [0]


def test_the_brokers_time_is_told_where_it_stamps_records() -> None:
    node = TestNode()
    node.create_topic("t", message_timestamp_type="LogAppendTime")
    assert produce(node, ("t", 0, batch()))[0].log_append_time_ms == node.world.clock.now_ms()


def test_a_duplicate_is_answered_with_the_offset_it_has() -> None:
    node = TestNode()
    node.create_topic("t")
    first = batch(producer_id=9, producer_epoch=0, sequence=0)
    second = batch(producer_id=9, producer_epoch=0, sequence=1)
    assert [produce(node, ("t", 0, one))[0].base_offset for one in (first, second, first)] == [0, 1, 0]
    (answer,) = produce(node, ("t", 0, batch(producer_id=9, producer_epoch=0, sequence=5)))
    assert answer.error_code == OutOfOrderSequenceNumber.code


def test_internal_topics_are_written_to_by_tools_only() -> None:
    node = TestNode()
    node.create_topic("__consumer_offsets")
    wanted = request(("__consumer_offsets", 0, batch()))
    refused = node.send(wanted, LATEST)
    assert refused.responses[0].partition_responses[0].error_code == InvalidTopicException.code
    taken = node.send(wanted, LATEST, client_id="__admin_client")
    assert taken.responses[0].partition_responses[0].error_code == 0


def test_acks_are_all_one_or_none() -> None:
    node = TestNode()
    node.create_topic("t")
    answers = produce(node, ("t", 0, batch()), ("x", 0, batch()), acks=2)
    assert [one.error_code for one in answers] == [InvalidRequiredAcks.code, UnknownTopicId.code]
    assert produce(node, ("t", 0, batch()), acks=1)[0].base_offset == 0, "nothing was appended before"


def test_without_acks_there_is_no_answer_and_an_error_ends_the_connection() -> None:
    node = TestNode()
    node.create_topic("t")
    assert node.begin(request(("t", 0, batch()), acks=0), LATEST) is None
    with pytest.raises(CloseConnection):
        node.begin(request(("t", 0, batch()), ("x", 0, batch()), acks=0), LATEST)
    assert node.partition().log is not None
    assert node.partition().log.log_end_offset == 2  # type: ignore[union-attr]


def test_acks_all_waits_until_the_followers_have_it() -> None:
    node = TestNode()
    node.create_topic("t", replicas=(NODE_ID, 2))
    answer = node.begin(request(("t", 0, batch())), LATEST)
    assert not isinstance(answer, ProduceResponse)
    node.partition().record_fetch(2, fetch_offset=1, log_start_offset=0)
    response = node.wait(answer)
    assert response.responses[0].partition_responses[0].error_code == 0
    assert isinstance(node.begin(request(("t", 0, batch()), acks=1), LATEST), ProduceResponse)


def test_acks_all_that_do_not_come_in_time_say_so() -> None:
    node = TestNode()
    node.create_topic("t", 2, replicas=(NODE_ID, 2))
    answer = node.begin(request(("t", 0, batch()), ("t", 1, batch())), LATEST)
    node.partition("t", 1).record_fetch(2, fetch_offset=1, log_start_offset=0)
    before = node.world.clock.monotonic_ms()
    response = node.wait(answer)
    assert node.world.clock.monotonic_ms() - before == 1000
    codes = [one.error_code for topic in response.responses for one in topic.partition_responses]
    assert codes == [RequestTimedOut.code, 0]


def test_a_leader_that_is_replaced_while_replicas_lag_says_so() -> None:
    node = TestNode()
    node.create_topic("t", replicas=(NODE_ID, 2))
    answer = node.begin(request(("t", 0, batch())), LATEST)
    node.change_partition("t", 0, leader=2)
    response = node.wait(answer)
    (one,) = response.responses[0].partition_responses
    assert (one.error_code, one.current_leader.leader_id) == (NotLeaderOrFollower.code, 2)


def test_too_few_in_sync_replicas_refuse_acks_all() -> None:
    node = TestNode()
    node.create_topic("t", replicas=(NODE_ID, 2), isr=(NODE_ID,), min_insync_replicas=2)
    assert produce(node, ("t", 0, batch()))[0].error_code == NotEnoughReplicas.code
    assert produce(node, ("t", 0, batch()), acks=1)[0].error_code == 0


def test_a_transaction_that_cannot_be_verified_is_to_be_tried_again() -> None:
    node = TestNode()
    node.create_topic("t")
    records = batch(producer_id=3, producer_epoch=0, sequence=0, is_transactional=True)
    (answer,) = produce(node, ("t", 0, records), transactional_id="tx")
    assert answer.error_code == NotEnoughReplicas.code
    assert "COORDINATOR_NOT_AVAILABLE" in (answer.error_message or "")
    (answer,) = produce(node, ("t", 0, records))
    assert answer.error_code == TransactionalIdAuthorizationFailed.code


def test_unverified_transactions_are_taken_where_that_is_allowed() -> None:
    node = TestNode({"transaction.partition.verification.enable": "false"})
    node.create_topic("t")
    records = batch(producer_id=3, producer_epoch=0, sequence=0, is_transactional=True)
    assert produce(node, ("t", 0, records), transactional_id="tx", version=11)[0].error_code == 0
    assert node.partition().log is not None
    assert node.partition().log.first_unstable_offset == 0  # type: ignore[union-attr]


def test_a_device_that_fails_is_told_and_its_directory_goes_offline() -> None:
    node = TestNode()
    node.create_topic("t", 2)
    assert node.virtual is not None
    node.virtual.disk.fail_at(1, errno.EIO, kinds=["write"])
    assert produce(node, ("t", 0, batch()))[0].error_code == KafkaStorageError.code
    assert node.failed_directories == ["/logs"]
    assert produce(node, ("t", 1, batch()))[0].error_code == KafkaStorageError.code


def test_what_was_taken_is_counted() -> None:
    node = TestNode()
    node.create_topic("t", max_message_bytes=500)
    produce(node, ("t", 0, batch(b"a", b"b")))
    produce(node, ("t", 0, batch(b"v" * 1000)))
    stats = node.replicas.stats_of("t")
    assert (stats.messages_in, stats.bytes_in, stats.produce_requests) == (2, len(batch(b"a", b"b")), 2)
    assert stats.bytes_rejected == len(batch(b"v" * 1000))
