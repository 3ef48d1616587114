"""Which brokers have a partition, and which of them leads: move replicas, see moves under way, elect leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ottla.client.admin.driver import Call, Driver, by_topic, check, failure
from ottla.client.admin.outcome import Outcomes
from ottla.client.network import Build
from ottla.errors import KafkaError, UnsupportedVersion
from ottla.types import TopicPartition
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

REASSIGN_KEY = 45
ELECT_LEADERS_KEY = 43


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A move under way: all replicas, and which of them come and go."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class ElectionType(IntEnum):
    """Back to the preferred replica, or, where no replica in sync is left, any that lives, at a loss of records."""

    PREFERRED = 0
    UNCLEAN = 1


def alter_partition_reassignments(
    driver: Driver,
    moves: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool,
    timeout: float | None,
) -> Outcomes[TopicPartition, None]:
    deadline = driver.deadline(timeout)

    def build(node_id: int, keys: list[TopicPartition]) -> Build:
        def make(version: int) -> AlterPartitionReassignmentsRequest:
            if version == 0 and not allow_replication_factor_change:
                raise UnsupportedVersion("The broker is too old to refuse changes of the replication factor")
            return AlterPartitionReassignmentsRequest(
                timeout_ms=driver.request_ms(deadline),
                allow_replication_factor_change=allow_replication_factor_change,
                topics=[
                    ReassignableTopic(
                        name=topic,
                        partitions=[_reassignable(index, moves[TopicPartition(topic, index)]) for index in indexes],
                    )
                    for topic, indexes in by_topic(keys).items()
                ],
            )

        return Build(REASSIGN_KEY, make)

    def read(
        node_id: int, keys: list[TopicPartition], response: AlterPartitionReassignmentsResponse
    ) -> Iterable[tuple[TopicPartition, KafkaError | None]]:
        check(response.error_code, response.error_message)
        for topic in response.responses:
            for one in topic.partitions:
                yield TopicPartition(topic.name, one.partition_index), failure(one.error_code, one.error_message)

    call: Call[TopicPartition, None] = Call("AlterPartitionReassignments", driver.controller(), build, read)
    return driver.start(call.what, moves, lambda outcomes: driver.pursue(call, outcomes, deadline))


def _reassignable(index: int, replicas: Sequence[int] | None) -> ReassignablePartition:
    return ReassignablePartition(partition_index=index, replicas=None if replicas is None else list(replicas))


async def list_partition_reassignments(
    driver: Driver, partitions: Iterable[TopicPartition] | None, *, timeout: float | None
) -> dict[TopicPartition, PartitionReassignment]:
    deadline = driver.deadline(timeout)
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    request = ListPartitionReassignmentsRequest(timeout_ms=driver.request_ms(deadline), topics=topics)

    def read(response: ListPartitionReassignmentsResponse) -> dict[TopicPartition, PartitionReassignment]:
        check(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, one.partition_index): PartitionReassignment(
                tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
            )
            for topic in response.topics
            for one in topic.partitions
        }

    return await driver.one("ListPartitionReassignments", driver.controller(), request, read, deadline)


async def elect_leaders(
    driver: Driver, election_type: ElectionType, partitions: Iterable[TopicPartition] | None, *, timeout: float | None
) -> Outcomes[TopicPartition, None]:
    """For all partitions when none are named, which is why this waits before it returns outcomes."""
    deadline = driver.deadline(timeout)
    wanted = None
    if partitions is not None:
        wanted = [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in by_topic(partitions).items()]

    def make(version: int) -> ElectLeadersRequest:
        if version == 0 and election_type is ElectionType.UNCLEAN:
            raise UnsupportedVersion("The broker is too old for unclean elections on demand")
        return ElectLeadersRequest(
            election_type=election_type, topic_partitions=wanted, timeout_ms=driver.request_ms(deadline)
        )

    def read(response: ElectLeadersResponse) -> dict[TopicPartition, KafkaError | None]:
        check(response.error_code)
        return {
            TopicPartition(topic.topic, one.partition_id): failure(one.error_code, one.error_message)
            for topic in response.replica_election_results
            for one in topic.partition_result
        }

    request = Build(ELECT_LEADERS_KEY, make)
    answers = await driver.one("ElectLeaders", driver.controller(), request, read, deadline)
    outcomes: Outcomes[TopicPartition, None] = Outcomes(driver.world.tasks, "ElectLeaders", answers)
    for key, error in answers.items():
        outcomes.settle(key, error)
    return outcomes
