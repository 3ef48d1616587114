"""A share session, as a conversation with a broker: what each request names, and when it begins anew."""

from __future__ import annotations

import pytest

from ottla.client.share.acknowledgements import Acknowledgements, AcknowledgeType
from ottla.client.share.session import FetchLimits, IdPartition, ShareSession
from ottla.errors import InvalidShareSessionEpoch, NotLeaderOrFollower, ShareSessionNotFound
from ottla.types import Uuid
from ottla.wire.messages.share_fetch import ShareFetchRequest

A0, A1, B0 = (
    IdPartition(Uuid(16 * b"a"), 0),
    IdPartition(Uuid(16 * b"a"), 1),
    IdPartition(Uuid(16 * b"b"), 0),
)
LIMITS = FetchLimits(500, 1, 1000, 10, 10)


def session() -> ShareSession:
    return ShareSession("g", "m", acquire_mode=1)


def names(request: ShareFetchRequest) -> tuple[int, list[IdPartition], list[IdPartition]]:
    """The epoch, the partitions that the request names, and those it takes out."""
    named = [IdPartition(Uuid(one.topic_id), part.partition_index) for one in request.topics for part in one.partitions]
    gone = [IdPartition(Uuid(one.topic_id), part) for one in request.forgotten_topics_data for part in one.partitions]
    return request.share_session_epoch, named, gone


def test_only_what_has_changed_is_named() -> None:
    one = session()
    assert names(one.fetch_request([A0, A1], {}, LIMITS)) == (0, [A0, A1], [])
    one.on_answer(0)
    assert names(one.fetch_request([A0, A1], {}, LIMITS)) == (1, [], [])
    one.on_answer(0)
    assert names(one.fetch_request([A0, B0], {}, LIMITS)) == (2, [B0], [A1])
    one.on_answer(0)
    acks = {A0: Acknowledgements({5: AcknowledgeType.ACCEPT}), A1: Acknowledgements({7: AcknowledgeType.RELEASE})}
    request = one.fetch_request([A0, B0], acks, LIMITS)
    assert names(request) == (3, [A0, A1], [])
    assert [
        (part.first_offset, part.acknowledge_types) for part in request.topics[0].partitions[1].acknowledgement_batches
    ] == [(7, [2])]
    assert request.max_records == 10
    assert request.share_acquire_mode == 1
    assert not request.is_renew_ack


def test_a_fetch_with_a_renewal_does_not_wait_for_records() -> None:
    one = session()
    one.fetch_request([A0], {}, LIMITS)
    one.on_answer(0)
    request = one.fetch_request([A0], {A0: Acknowledgements({5: AcknowledgeType.RENEW})}, LIMITS)
    assert request.is_renew_ack
    assert (request.max_wait_ms, request.max_records, request.max_bytes) == (0, 0, 0)


@pytest.mark.parametrize("error", [ShareSessionNotFound, InvalidShareSessionEpoch])
def test_a_session_that_the_broker_has_lost_begins_anew(error: type[ShareSessionNotFound]) -> None:
    one = session()
    one.fetch_request([A0], {}, LIMITS)
    one.on_answer(0)
    one.fetch_request([A0], {}, LIMITS)
    one.on_answer(error.code)
    assert one.is_new
    assert names(one.fetch_request([A0, A1], {}, LIMITS)) == (0, [A0, A1], [])


def test_another_error_is_an_answer_of_the_session() -> None:
    one = session()
    one.fetch_request([A0], {}, LIMITS)
    one.on_answer(0)
    one.on_answer(NotLeaderOrFollower.code)
    assert one.epoch == 2


def test_a_request_that_was_not_answered_begins_the_session_anew() -> None:
    one = session()
    one.fetch_request([A0], {}, LIMITS)
    one.on_answer(0)
    one.reset()
    assert one.is_new


def test_the_epoch_goes_from_the_largest_to_one() -> None:
    one = session()
    one.epoch = 0x7FFF_FFFF
    one.on_answer(0)
    assert one.epoch == 1


def test_the_final_request_ends_the_session() -> None:
    one = session()
    one.fetch_request([A0], {}, LIMITS)
    one.on_answer(0)
    request = one.acknowledge_request({A0: Acknowledgements({1: AcknowledgeType.REJECT})}, is_final=True)
    assert request.share_session_epoch == -1
    assert request.topics[0].partitions[0].acknowledgement_batches[0].acknowledge_types == [3]
