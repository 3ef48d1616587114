"""Fetch, as consumers and followers see it: limits, waiting, isolation, sessions, and every refusal with its code."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import (
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InconsistentTopicId,
    InvalidFetchSessionEpoch,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.storage import AppendOrigin, FileSlice
from ottla.types import ZERO_UUID, Uuid
from ottla.wire import encode_parts
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tests.support.logs import end_transaction, make_batch
from tests.unit.replica.node import NODE_ID, TestNode, topic_id

LATEST = 18
SIZE = len(make_batch(b"v"))

BROKER_EPOCH = 8
"""Of broker 2, as the test node's metadata has it."""


def request(
    *partitions: tuple[str, int, int],
    version: int = LATEST,
    uuid: Uuid | None = None,
    forgotten: tuple[tuple[str, int], ...] = (),
    bytes_max: int = 1 << 20,
    epoch: int = -1,
    last_fetched_epoch: int = -1,
    replica_id: int = -1,
    **fields: Any,
) -> FetchRequest:
    """A fetch of (topic, partition, offset); without a session unless told."""
    made = FetchRequest(
        max_wait_ms=fields.pop("max_wait_ms", 0),
        min_bytes=fields.pop("min_bytes", 1),
        topics=[
            FetchTopic(
                name if version < 13 else "",
                ZERO_UUID if version < 13 else uuid or topic_id(name),
                [
                    FetchPartition(
                        index,
                        current_leader_epoch=epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=last_fetched_epoch,
                        partition_max_bytes=bytes_max,
                    )
                ],
            )
            for name, index, offset in partitions
        ],
        forgotten_topics_data=[
            ForgottenTopic(name if version < 13 else "", ZERO_UUID if version < 13 else topic_id(name), [index])
            for name, index in forgotten
        ],
        **fields,
    )
    if replica_id >= 0:
        if version >= 15:
            made.replica_state = ReplicaState(replica_id, BROKER_EPOCH)
        else:
            made.replica_id = replica_id
    return made


def fetch(node: TestNode, *partitions: tuple[str, int, int], version: int = LATEST, **fields: Any) -> FetchResponse:
    response = node.send(request(*partitions, version=version, **fields), version)
    assert isinstance(response, FetchResponse)
    return response


def found(response: FetchResponse) -> list[PartitionData]:
    return [one for topic in response.responses for one in topic.partitions]


def sizes(response: FetchResponse) -> list[int]:
    return [len(one.records or b"") for one in found(response)]


def node_with(*values: bytes, partitions: int = 1, **topic: Any) -> TestNode:
    node = TestNode()
    node.create_topic("t", partitions, **topic)
    for index in range(partitions):
        for value in values:
            node.partition("t", index).append(make_batch(value))
    return node


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_what_is_there(version: int) -> None:
    node = node_with(b"a", b"b")
    (one,) = found(fetch(node, ("t", 0, 1), version=version))
    assert (one.error_code, one.high_watermark, one.last_stable_offset, one.log_start_offset) == (0, 2, 2, 0)
    assert isinstance(one.records, FileSlice)
    assert one.records.read()[:8] == (1).to_bytes(8, "big")
    assert one.aborted_transactions is None
    assert one.preferred_read_replica == -1


def test_records_leave_as_slices_of_their_file() -> None:
    node = node_with(b"v" * 5000)
    parts = encode_parts(fetch(node, ("t", 0, 0)), LATEST)
    assert any(isinstance(part, FileSlice) for part in parts)


def test_the_first_batch_is_sent_whole_and_the_limits_hold_for_the_rest() -> None:
    node = node_with(b"v", b"v", partitions=3)
    asked = [("t", index, 0) for index in range(3)]
    assert sizes(fetch(node, *asked, bytes_max=1)) == [SIZE, 0, 0]
    assert sizes(fetch(node, *asked, max_bytes=1)) == [SIZE, 0, 0]
    assert sizes(fetch(node, *asked, max_bytes=SIZE * 3)) == [2 * SIZE, SIZE, 0]
    assert sizes(fetch(node, *asked, bytes_max=SIZE)) == [SIZE] * 3


def test_the_broker_has_a_limit_of_its_own() -> None:
    node = TestNode({"fetch.max.bytes": 1024})
    node.create_topic("t")
    for _ in range(100):
        node.partition().append(make_batch(b"v"))
    assert sizes(fetch(node, ("t", 0, 0))) == [1024]


def test_offsets_outside_of_the_log_are_refused() -> None:
    node = node_with(b"a", b"b")
    node.partition().delete_records(1)
    codes = [found(fetch(node, ("t", 0, offset)))[0].error_code for offset in (0, 1, 2, 3)]
    assert codes == [OffsetOutOfRange.code, 0, 0, OffsetOutOfRange.code]
    (one,) = found(fetch(node, ("t", 0, 9)))
    assert (one.high_watermark, one.log_start_offset, one.records) == (-1, -1, b"")


def test_a_reader_with_the_wrong_epoch_is_told_and_shown_the_leader() -> None:
    node = node_with(b"a", leader_epoch=3)
    assert found(fetch(node, ("t", 0, 0), epoch=3))[0].error_code == 0
    assert found(fetch(node, ("t", 0, 0), epoch=4))[0].error_code == UnknownLeaderEpoch.code
    response = fetch(node, ("t", 0, 0), epoch=2)
    (one,) = found(response)
    assert one.error_code == FencedLeaderEpoch.code
    assert one.current_leader is not None
    assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (NODE_ID, 3)
    assert [endpoint.host for endpoint in response.node_endpoints] == ["host-1"]
    (older,) = found(fetch(node, ("t", 0, 0), epoch=2, version=15))
    assert older.current_leader is None


def test_topics_that_are_not_here_have_the_code_of_how_they_were_named() -> None:
    node = node_with(b"a")
    node.create_topic("away", replicas=(2,))
    assert found(fetch(node, ("x", 0, 0)))[0].error_code == UnknownTopicId.code
    assert found(fetch(node, ("x", 0, 0), version=12))[0].error_code == UnknownTopicOrPartition.code
    assert found(fetch(node, ("t", 5, 0)))[0].error_code == UnknownTopicOrPartition.code
    assert found(fetch(node, ("away", 0, 0)))[0].error_code == NotLeaderOrFollower.code


def test_unknown_partitions_come_last_and_do_not_hurry_the_others() -> None:
    node = node_with(b"a")
    answer = node.begin(request(("x", 0, 0), ("t", 0, 1), max_wait_ms=300), LATEST)
    assert not isinstance(answer, FetchResponse)
    before = node.world.clock.monotonic_ms()
    response = node.wait(answer)
    assert node.world.clock.monotonic_ms() - before == 300
    assert [one.error_code for one in found(response)] == [0, UnknownTopicId.code]


def test_a_failed_directory_is_told_in_words_that_old_clients_know() -> None:
    node = node_with(b"a")
    log = node.partition().log
    assert log is not None
    log.log_dir.failure = "it smokes"
    assert found(fetch(node, ("t", 0, 0)))[0].error_code == KafkaStorageError.code
    assert found(fetch(node, ("t", 0, 0), version=5))[0].error_code == NotLeaderOrFollower.code


# Waiting


def test_an_empty_fetch_waits_for_the_next_append_and_costs_no_task() -> None:
    node = node_with(b"a")
    answer = node.begin(request(("t", 0, 1), max_wait_ms=500), LATEST)
    before = node.world.clock.monotonic_ms()
    node.partition().append(make_batch(b"b"))
    response = node.wait(answer)
    assert node.world.clock.monotonic_ms() == before
    assert sizes(response) == [SIZE]
    assert not node.partition().waiters


def test_a_fetch_that_finds_nothing_is_answered_in_time() -> None:
    node = node_with(b"a")
    before = node.world.clock.monotonic_ms()
    response = fetch(node, ("t", 0, 1), max_wait_ms=400)
    assert node.world.clock.monotonic_ms() - before == 400
    assert sizes(response) == [0]


def test_a_fetch_that_does_not_want_to_wait_does_not() -> None:
    node = node_with(b"a")
    assert isinstance(node.begin(request(("t", 0, 1), max_wait_ms=0), LATEST), FetchResponse)
    assert isinstance(node.begin(request(("t", 0, 1), max_wait_ms=500, min_bytes=0), LATEST), FetchResponse)


def test_a_fetch_waits_for_min_bytes_over_all_its_partitions() -> None:
    node = node_with(b"v", partitions=2)
    answer = node.begin(request(("t", 0, 0), ("t", 1, 1), max_wait_ms=500, min_bytes=3 * SIZE), LATEST)
    assert not isinstance(answer, FetchResponse)
    node.partition("t", 1).append(make_batch(b"v"))
    node.run_ms(10)
    assert not answer.done()
    node.partition("t", 0).append(make_batch(b"v"))
    node.run_ms(1)
    assert sizes(answer.result()) == [2 * SIZE, SIZE]


def test_an_error_in_one_partition_is_told_without_waiting() -> None:
    node = node_with(b"a", partitions=2)
    response = node.begin(request(("t", 0, 1), ("t", 1, 99), max_wait_ms=500), LATEST)
    assert isinstance(response, FetchResponse)
    assert [one.error_code for one in found(response)] == [0, OffsetOutOfRange.code]


def test_a_new_leader_ends_the_wait() -> None:
    node = node_with(b"a", replicas=(NODE_ID, 2), isr=(NODE_ID,))
    answer = node.begin(request(("t", 0, 1), max_wait_ms=500, version=10), 10)
    node.change_partition("t", 0, leader=2)
    before = node.world.clock.monotonic_ms()
    assert found(node.wait(answer))[0].error_code == NotLeaderOrFollower.code
    assert node.world.clock.monotonic_ms() == before


def test_a_connection_that_closes_leaves_nothing_behind() -> None:
    node = node_with(b"a")
    node.begin(request(("t", 0, 1), max_wait_ms=500), LATEST)
    assert node.partition().waiters
    node.connection.close()
    assert not node.partition().waiters


# Isolation


def test_read_committed_stops_at_open_transactions_and_names_the_aborted() -> None:
    node = TestNode({"transaction.partition.verification.enable": "false"})
    node.create_topic("t")
    partition = node.partition()
    partition.append(make_batch(b"a", producer_id=5, producer_epoch=0, sequence=0, is_transactional=True))
    partition.append(make_batch(b"plain"))
    (one,) = found(fetch(node, ("t", 0, 0), isolation_level=1))
    assert (one.high_watermark, one.last_stable_offset, one.records) == (2, 0, b"")
    assert sizes(fetch(node, ("t", 0, 0))) != [0]
    partition.append(
        end_transaction(5, 0, commit=False, timestamp=node.world.clock.now_ms()),
        origin=AppendOrigin.COORDINATOR,
        transaction_version=0,
    )
    (one,) = found(fetch(node, ("t", 0, 0), isolation_level=1))
    assert one.last_stable_offset == 3
    assert one.aborted_transactions is not None
    assert [(aborted.producer_id, aborted.first_offset) for aborted in one.aborted_transactions] == [(5, 0)]


def test_nothing_above_the_high_watermark_is_shown_to_a_consumer() -> None:
    node = node_with(replicas=(NODE_ID, 2))
    node.partition().append(make_batch(b"a"))
    (one,) = found(fetch(node, ("t", 0, 0)))
    assert (one.high_watermark, one.records) == (0, b"")


# Followers


def test_a_follower_reads_to_the_end_and_its_position_moves_the_high_watermark() -> None:
    node = node_with(replicas=(NODE_ID, 2))
    node.partition().append(make_batch(b"a"))
    assert sizes(fetch(node, ("t", 0, 0), replica_id=2)) == [SIZE]
    (one,) = found(fetch(node, ("t", 0, 1), replica_id=2))
    assert one.high_watermark == 0, "as it was when the read was done"
    assert found(fetch(node, ("t", 0, 0)))[0].high_watermark == 1
    assert found(fetch(node, ("t", 0, 0), replica_id=7, version=14))[0].error_code == NotLeaderOrFollower.code
    assert found(fetch(node, ("t", 0, 0), replica_id=7, epoch=0))[0].error_code == UnknownLeaderEpoch.code


def test_a_diverging_follower_is_told_where_to_cut() -> None:
    node = node_with(b"a", replicas=(NODE_ID, 2), isr=(NODE_ID,), leader_epoch=1)
    node.change_partition("t", 0, leader=NODE_ID)
    node.change_partition("t", 0, leader=NODE_ID)
    node.partition().append(make_batch(b"b"))
    response = fetch(node, ("t", 0, 4), replica_id=2, epoch=3, last_fetched_epoch=2, max_wait_ms=500)
    (one,) = found(response)
    assert one.diverging_epoch is not None
    assert (one.diverging_epoch.epoch, one.diverging_epoch.end_offset) == (1, 1)
    assert one.records == b""


# Sessions


def test_a_session_tells_only_what_is_new() -> None:
    node = node_with(b"a", partitions=2)
    first = fetch(node, ("t", 0, 1), ("t", 1, 0), session_epoch=0)
    assert first.session_id > 0
    assert len(found(first)) == 2
    session = {"session_id": first.session_id}
    second = fetch(node, ("t", 1, 1), **session, session_epoch=1)
    assert found(second) == []
    assert second.session_id == first.session_id
    node.partition("t", 0).append(make_batch(b"b"))
    third = fetch(node, **session, session_epoch=2)
    assert [one.partition_index for one in found(third)] == [0]
    forgotten = fetch(node, **session, session_epoch=3, forgotten=(("t", 0),))
    assert found(forgotten) == []
    node.partition("t", 0).append(make_batch(b"c"))
    assert found(fetch(node, **session, session_epoch=4)) == []


def test_requests_out_of_turn_are_refused() -> None:
    node = node_with(b"a")
    session_id = fetch(node, ("t", 0, 1), session_epoch=0).session_id
    assert fetch(node, session_id=session_id, session_epoch=5).error_code == InvalidFetchSessionEpoch.code
    assert fetch(node, session_id=session_id + 1, session_epoch=1).error_code == FetchSessionIdNotFound.code
    refused = fetch(node, session_id=session_id, session_epoch=1, version=12)
    assert (refused.error_code, refused.responses) == (FetchSessionTopicIdError.code, [])
    assert fetch(node, session_id=session_id, session_epoch=1).error_code == 0
    assert fetch(node, ("t", 0, 1), session_id=session_id, session_epoch=-1).session_id == 0
    assert fetch(node, session_id=session_id, session_epoch=2).error_code == FetchSessionIdNotFound.code


def test_an_overtaken_request_of_a_session_is_refused() -> None:
    node = node_with(b"a")
    session_id = fetch(node, ("t", 0, 1), session_epoch=0).session_id
    waiting = node.begin(request(session_id=session_id, session_epoch=1, max_wait_ms=500), LATEST)
    fetch(node, session_id=session_id, session_epoch=2)
    overtaken = node.wait(waiting)
    assert (overtaken.error_code, overtaken.session_id) == (InvalidFetchSessionEpoch.code, session_id)
    assert fetch(node, session_id=session_id, session_epoch=3).error_code == 0


def test_partitions_that_had_records_go_to_the_end_of_the_line() -> None:
    node = node_with(b"v", b"v", partitions=3)
    asked = [("t", index, 0) for index in range(3)]
    session_id = fetch(node, *asked, session_epoch=0, max_bytes=1).session_id
    seen = []
    for epoch in range(1, 5):
        response = fetch(node, session_id=session_id, session_epoch=epoch, max_bytes=1)
        seen += [one.partition_index for one in found(response) if one.records]
    assert seen == [0, 1, 2, 0]


def test_a_topic_made_anew_is_not_taken_for_the_old_one() -> None:
    node = node_with(b"a")
    session_id = fetch(node, ("t", 0, 1), session_epoch=0).session_id
    node.delete_topic("t")
    node.create_topic("t", uuid=Uuid(16 * b"\6"))
    (one,) = found(fetch(node, session_id=session_id, session_epoch=1))
    assert one.error_code == InconsistentTopicId.code


def test_a_topic_that_is_not_known_yet_is_served_once_it_is() -> None:
    node = TestNode()
    session_id = fetch(node, ("t", 0, 0), session_epoch=0).session_id
    node.create_topic("t")
    node.partition().append(make_batch(b"a"))
    assert sizes(fetch(node, session_id=session_id, session_epoch=1)) == [SIZE]


def test_bytes_sent_are_counted() -> None:
    node = node_with(b"a", replicas=(NODE_ID, 2), isr=(NODE_ID,))
    fetch(node, ("t", 0, 0))
    fetch(node, ("t", 0, 0), replica_id=2)
    stats = node.replicas.stats_of("t")
    assert (stats.bytes_out, stats.replication_bytes_out) == (SIZE, SIZE)
