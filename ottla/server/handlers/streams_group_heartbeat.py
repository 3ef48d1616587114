"""StreamsGroupHeartbeat (key 88): join, stay in or leave a Streams group, and be told which tasks to run (KIP-1071).

When the group waits for topics of its own, the controller is asked for them here, and the member is told why it waits.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coordinator.group.streams import Answer, Status, check_streams_protocol
from ottla.errors import InvalidRequest, InvalidTopicException, KafkaError, StreamsInvalidTopology
from ottla.metadata import INTERNAL_TOPICS, check_topic_name
from ottla.server.context import BrokerContext
from ottla.server.group_requests import caller_of
from ottla.server.promises import mapped
from ottla.wire.messages.create_topics import CreatableTopic
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from ottla.world import Promise

API_KEY = 88
JOIN, LEAVE_FOR_A_WHILE = 0, -2
REFUSALS_SHOWN_MAX = 3


def handle(context: BrokerContext, request: StreamsGroupHeartbeatRequest) -> Promise[StreamsGroupHeartbeatResponse]:
    broker = context.broker
    check_streams_protocol(broker.node.image, broker.node.config)
    if request.topology is not None:
        _check_topics(request.topology)
    _check_supported(request)
    _check(request)
    caller = caller_of(context)
    decided = broker.groups.write(
        request.group_id, "StreamsGroupHeartbeat", lambda shard: shard.streams.heartbeat(request, caller)
    )

    def answer(decision: Answer) -> StreamsGroupHeartbeatResponse:
        if decision.topics_to_create:
            _create(context, decision.response, decision.topics_to_create)
        return decision.response

    return mapped(broker.node.world.tasks, decided, answer)


def failed(request: StreamsGroupHeartbeatRequest, error: KafkaError, version: int) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def _create(
    context: BrokerContext, response: StreamsGroupHeartbeatResponse, topics: Mapping[str, CreatableTopic]
) -> None:
    """Ask for the topics, and tell in the answer what became of them when they were asked for before."""
    creation = context.broker.topic_creation
    creation.create_for_streams(topics.values(), remember_ms=2 * response.heartbeat_interval_ms)
    refusals = [f"{name} ({reason})" for name, reason in creation.refusals(topics).items()]
    if not refusals:
        return
    shown = ", ".join(refusals[:REFUSALS_SHOWN_MAX])
    if len(refusals) > REFUSALS_SHOWN_MAX:
        shown += f" and {len(refusals) - REFUSALS_SHOWN_MAX} more"
    for status in response.status or ():
        if status.status_code == Status.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; Creation failed: {shown}."


# What can be told without the group


def _check_topics(topology: Topology) -> None:
    names = dict.fromkeys(
        name
        for one in topology.subtopologies
        for name in (
            *one.source_topics,
            *one.repartition_sink_topics,
            *(info.name for info in one.repartition_source_topics),
            *(info.name for info in one.state_changelog_topics),
        )
    )
    internal = [name for name in names if name in INTERNAL_TOPICS]
    if internal:
        raise StreamsInvalidTopology(
            f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
        )
    invalid = [name for name in names if not _is_valid(name)]
    if invalid:
        raise StreamsInvalidTopology(f"Topic names {','.join(invalid)} are not valid topic names.")


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopicException:
        return False
    return True


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    """What the protocol has a place for, and Kafka 4.3 does not do yet."""
    _refuse(request.instance_id is not None, "Static membership is not yet supported.")
    _refuse(request.task_offsets is not None, "TaskOffsets are not supported yet.")
    _refuse(request.task_end_offsets is not None, "TaskEndOffsets are not supported yet.")
    _refuse(bool(request.warmup_tasks), "WarmupTasks are not supported yet.")
    if request.topology is not None:
        has_regex = any(one.source_topic_regex for one in request.topology.subtopologies)
        _refuse(has_regex, "Regular expressions for source topics are not supported yet.")


def _check(request: StreamsGroupHeartbeatRequest) -> None:
    """The rules for a request by itself, in Kafka's order."""
    epoch, topology = request.member_epoch, request.topology
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    # Nothing but blanks counts as empty.
    _refuse(not request.member_id.strip(), "MemberId can't be empty.")
    _refuse(not request.group_id.strip(), "GroupId can't be empty.")
    _refuse(request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty.")
    if epoch == JOIN:
        _refuse(request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request.")
        for name, owned in zip(("ActiveTasks", "StandbyTasks", "WarmupTasks"), tasks, strict=True):
            _refuse(owned is None or bool(owned), f"{name} must be empty when (re-)joining.")
        if topology is None:
            raise InvalidRequest("Topology must be non-null when (re-)joining.")
        _check_changelogs(topology)
    elif epoch == LEAVE_FOR_A_WHILE:
        _refuse(request.instance_id is None, "InstanceId can't be null.")
    elif epoch < LEAVE_FOR_A_WHILE:
        raise InvalidRequest(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    given = [owned is not None for owned in tasks]
    _refuse(any(given) and not all(given), "If one task-type is non-null, all must be non-null.")
    _refuse(epoch != JOIN and topology is not None, "Topology can only be provided when (re-)joining.")


def _check_changelogs(topology: Topology) -> None:
    for one in topology.subtopologies:
        for info in one.state_changelog_topics:
            if info.partitions != 0:
                raise StreamsInvalidTopology(
                    f"Changelog topic {info.name} must have an undefined partition count, but it is set to "
                    f"{info.partitions}."
                )


def _refuse(is_wrong: bool, reason: str) -> None:
    if is_wrong:
        raise InvalidRequest(reason)
