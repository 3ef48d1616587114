"""Commits and lookups when the coordinator is moody: what is tried again, what is told, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.errors import CommitFailed, KafkaTimeout, RetriableCommitFailed
from ottla.client.group import OffsetAndMetadata
from ottla.client.group.commits import Identity
from ottla.errors import (
    CoordinatorLoadInProgress,
    GroupAuthorizationFailed,
    IllegalGeneration,
    KafkaError,
    NotCoordinator,
    StaleMemberEpoch,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from ottla.types import TopicPartition
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.world import ClientWorld
from tests.support.broker_cluster import BrokerCluster
from tests.support.wire import FINE, Meddling, only
from tests.unit.client.group.face import Face

PLACE = TopicPartition("t", 0)
COMMIT, FETCH = "OffsetCommit", "OffsetFetch"


class Coordinator:
    """Answers commits and lookups with a script of error codes, and remembers what it was asked.

    No coordinator can be brought to say these in this order: loading, moved, a topic it has not heard of, stale epochs.
    """

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.commits: list[int] = []

    def __call__(self, broker: Any, request: Any) -> Meddling:
        if isinstance(request.body, OffsetCommitRequest):
            code = self.codes.pop(0) if self.codes else 0
            (topic,) = request.body.topics
            self.commits.append(topic.partitions[0].committed_offset)
            answer = OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=[OffsetCommitResponsePartition(0, code)]
            )
            return Meddling(answer=OffsetCommitResponse(topics=[answer]))
        if type(request.body).__name__ == "OffsetFetchRequest":
            return Meddling(answer=self._fetched(request.body))
        return FINE

    def _fetched(self, request: Any) -> OffsetFetchResponse:
        code = self.codes.pop(0) if self.codes else 0
        is_group = code in (NotCoordinator.code, StaleMemberEpoch.code, UnknownMemberId.code)
        (topic,) = request.groups[0].topics
        found = OffsetFetchResponsePartitions(0, 42, 3, "text", 0 if is_group else code)
        topics = [OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=[found])]
        return OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup("g", [] if is_group else topics, code if is_group else 0)]
        )


def with_coordinator(coordinator: Coordinator, main: Callable[[Face], Any], **settings: Any) -> Any:
    cluster = BrokerCluster(1, broker_count=1)
    cluster.create_topic("t")
    cluster.serve_groups()

    async def run(world: ClientWorld) -> Any:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        face = Face(world, [], {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", **named})
        await face.metadata.topic("t", 1_000)
        cluster.meddle = coordinator
        try:
            return await main(face)
        finally:
            face.drop()

    return cluster.run(run)


def test_what_passes_by_itself_is_tried_again_until_it_is_done() -> None:
    coordinator = Coordinator(CoordinatorLoadInProgress.code, NotCoordinator.code, UnknownTopicOrPartition.code)

    async def main(face: Face) -> None:
        await face.commits.commit({PLACE: OffsetAndMetadata(7)}, 10_000)

    with_coordinator(coordinator, main)
    assert coordinator.commits == [7, 7, 7, 7]


def test_a_commit_that_cannot_be_done_in_time_says_why() -> None:
    coordinator = Coordinator(*[CoordinatorLoadInProgress.code] * 100)

    async def main(face: Face) -> int:
        begun_ms = face.world.clock.monotonic_ms()
        with pytest.raises(KafkaTimeout, match="still loading"):
            await face.commits.commit({PLACE: OffsetAndMetadata(7)}, 2_000)
        return face.world.clock.monotonic_ms() - begun_ms

    assert with_coordinator(coordinator, main) <= 2_000


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (GroupAuthorizationFailed.code, GroupAuthorizationFailed),
        (TopicAuthorizationFailed.code, TopicAuthorizationFailed),
        (IllegalGeneration.code, CommitFailed),
        (UnknownMemberId.code, CommitFailed),
    ],
)
def test_what_does_not_pass_is_raised_at_once(code: int, error: type[KafkaError]) -> None:
    coordinator = Coordinator(code)

    async def main(face: Face) -> None:
        with pytest.raises(error):
            await face.commits.commit({PLACE: OffsetAndMetadata(7)}, 10_000)

    with_coordinator(coordinator, main)
    assert coordinator.commits == [7]


def test_asynchronous_commits_are_not_tried_again_and_end_in_order() -> None:
    coordinator = Coordinator(0, CoordinatorLoadInProgress.code, 0)
    ended: list[tuple[int, type[KafkaError] | None]] = []

    async def main(face: Face) -> None:
        for offset in (1, 2, 3):
            face.commits.commit_async(
                {PLACE: OffsetAndMetadata(offset)},
                lambda found, error: ended.append((found[PLACE].offset, None if error is None else type(error))),
            )
        await face.commits.commit({PLACE: OffsetAndMetadata(4)}, 5_000)
        await face.serve()

    with_coordinator(coordinator, main)
    assert coordinator.commits == [1, 2, 3, 4]
    assert ended == [(1, None), (2, RetriableCommitFailed), (3, None)]


def test_a_lookup_waits_for_open_transactions_and_for_the_members_next_epoch() -> None:
    coordinator = Coordinator(
        UnstableOffsetCommit.code, NotCoordinator.code, StaleMemberEpoch.code, UnknownMemberId.code
    )

    async def main(face: Face) -> Any:
        return await face.commits.committed([PLACE], 10_000)

    assert with_coordinator(coordinator, main) == {PLACE: OffsetAndMetadata(42, "text", 3)}


def test_a_stale_epoch_is_committed_again_under_the_next_one() -> None:
    """A heartbeat has brought another epoch while the commit was on its way (KIP-848)."""
    coordinator = Coordinator(StaleMemberEpoch.code)

    class Member:
        epoch = 4

        def commit_as(self) -> Identity:
            self.epoch += 1
            return Identity(self.epoch, "m")

        def fetch_as(self) -> Identity:
            return Identity()

        def commit_refused(self, error: KafkaError, sent: Identity) -> KafkaError:
            return error

    async def main(face: Face) -> int:
        member = Member()
        face.commits.committer = member
        await face.commits.commit({PLACE: OffsetAndMetadata(7)}, 10_000)
        return member.epoch

    assert with_coordinator(coordinator, main) == 6
    assert coordinator.commits == [7, 7]


def test_auto_commit_is_done_in_polls_and_at_its_interval_only() -> None:
    coordinator = Coordinator()

    async def main(face: Face) -> list[int]:
        face.assignment = (PLACE,)
        face.consumed[PLACE] = OffsetAndMetadata(1)
        await face.poll(900)
        face.consumed[PLACE] = OffsetAndMetadata(2)
        await face.poll(600)
        face.consumed[PLACE] = OffsetAndMetadata(3)
        await face.world.tasks.sleep_ms(5_000)  # the user works: nothing is committed that may not be done yet
        seen = list(coordinator.commits)
        await face.poll(300)
        return seen

    assert with_coordinator(coordinator, main, auto_commit_interval_ms=1_000) == [2]
    assert coordinator.commits == [2, 3]


def test_the_coordinator_is_asked_by_topic_id() -> None:
    cluster = BrokerCluster(1, broker_count=1)
    cluster.create_topic("t")
    cluster.serve_groups()

    async def main(world: ClientWorld) -> None:
        face = Face(world, [], {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
        await face.metadata.topic("t", 1_000)
        await face.commits.commit({PLACE: OffsetAndMetadata(1)}, 5_000)
        assert await face.commits.committed([PLACE], 5_000) == {PLACE: OffsetAndMetadata(1)}
        face.drop()

    cluster.run(main)
    assert only(cluster.requests, COMMIT) == [(1, 10)]
    assert only(cluster.requests, FETCH) == [(1, 10)]
