"""ShareFetch (key 78): records for a member of a share group, which are its own until it acknowledges them.

A request may acknowledge earlier records too: that is done first, and each partition's answer has both. A request that
renews its hold on records brings nothing new, so that its answer is not late (KIP-1222).
"""

from __future__ import annotations

from ottla.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    KafkaError,
    NotLeaderOrFollower,
    ShareSessionLimitReached,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.replica import current_leader
from ottla.replica.share import AcquireMode, Fetched, FetchLimits, Index, ShareFetch
from ottla.server.context import BrokerContext
from ottla.server.promises import chained, mapped
from ottla.server.share import FINAL_EPOCH, RENEW_VERSION, ShareContext, acknowledge, check_share_request
from ottla.wire.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.world import Promise

API_KEY = 78
_MODES = frozenset(AcquireMode)


def handle(context: BrokerContext, request: ShareFetchRequest) -> Promise[ShareFetchResponse]:
    group_id, member_id = check_share_request(context, request.group_id, request.member_id)
    is_renewal = context.version >= RENEW_VERSION and request.is_renew_ack
    if is_renewal:
        _check_renewal(request)
    if request.share_acquire_mode not in _MODES:
        raise InvalidRequest(f"Unknown share acquire mode id: {request.share_acquire_mode}")
    said = [
        (topic.topic_id, one.partition_index, one.acknowledgement_batches)
        for topic in request.topics
        for one in topic.partitions
    ]
    has_acknowledgements = any(batches for _, _, batches in said)
    try:
        turn = context.broker.share.sessions.open(
            (group_id, member_id),
            request.share_session_epoch,
            [(topic_id, index) for topic_id, index, _ in said],
            [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions],
            context.connection,
            has_acknowledgements=has_acknowledgements,
        )
    except ShareSessionLimitReached as error:
        return _refused_later(context, request.max_wait_ms, error)
    tasks = context.node.world.tasks
    said = [one for one in said if one[2]] if has_acknowledgements else []
    acknowledged = acknowledge(context, group_id, member_id, said, is_renewal=is_renewal)
    fetch = _ShareFetch(context, request, turn, group_id, member_id)
    fetched = fetch.begin(is_renewal=is_renewal)
    return chained(
        tasks, acknowledged, lambda outcomes: mapped(tasks, fetched, lambda found: fetch.answer(found, outcomes))
    )


def _check_renewal(request: ShareFetchRequest) -> None:
    wrong = [
        name
        for name, value in (
            ("maxBytes", request.max_bytes),
            ("minBytes", request.min_bytes),
            ("maxRecords", request.max_records),
            ("maxWaitMs", request.max_wait_ms),
        )
        if value
    ]
    if wrong:
        raise InvalidRequest(f"{', '.join(wrong)} must be set to 0 if isRenewAck is true.")


def _refused_later(context: BrokerContext, wait_ms: int, error: KafkaError) -> Promise[ShareFetchResponse]:
    """A client that is refused at once would ask again at once."""
    promise: Promise[ShareFetchResponse] = context.node.world.tasks.promise()
    context.node.world.tasks.later(wait_ms, lambda: promise.set_exception(error))
    return promise


class _ShareFetch:
    """One request under way."""

    def __init__(
        self, context: BrokerContext, request: ShareFetchRequest, turn: ShareContext, group_id: str, member_id: str
    ) -> None:
        self._context = context
        self._request = request
        self._turn = turn
        self._group_id = group_id
        self._member_id = member_id
        self._refused: dict[Index, Fetched] = {}

    def begin(self, *, is_renewal: bool) -> Promise[dict[Index, Fetched]]:
        broker, request = self._context.broker, self._request
        by_id = broker.node.image.topics.by_id
        wanted: list[Index] = []
        for topic_id, index in self._turn.wanted:
            topic = by_id.get(topic_id)
            if topic is None:
                self._refused[topic_id, index] = Fetched(error=UnknownTopicId())
            elif index not in topic.partitions:
                self._refused[topic_id, index] = Fetched(error=UnknownTopicOrPartition())
            else:
                wanted.append((topic_id, index))
        bytes_max = min(request.max_bytes, broker.node.config.fetch_max_bytes)
        limits = FetchLimits(
            wait_ms=request.max_wait_ms,
            bytes_min=min(request.min_bytes, bytes_max),
            bytes_max=bytes_max,
            records_max=request.max_records,
            batch_size=request.batch_size,
            mode=AcquireMode(request.share_acquire_mode),
        )
        # The first one comes last next time, so that with small limits all have their turn.
        epoch = request.share_session_epoch
        if epoch >= 1 and wanted:
            start = epoch % len(wanted)
            wanted = wanted[start:] + wanted[:start]
        fetch = ShareFetch(broker.share.partitions, self._group_id, self._member_id, limits)
        return fetch.run([] if is_renewal else wanted, self._context.connection)

    def answer(self, fetched: dict[Index, Fetched], acknowledged: dict[Index, KafkaError | None]) -> ShareFetchResponse:
        share = self._context.broker.share
        self._turn.check_turn()
        response = ShareFetchResponse(acquisition_lock_timeout_ms=share.partitions.limits(self._group_id).lock_ms)
        told: dict[Index, PartitionData] = {}
        for index, one in {**fetched, **self._refused}.items():
            has_records = one.records is not None
            if self._turn.note(index, has_records=has_records, has_error=one.error is not None):
                told[index] = self._data(index, one, response)
        for index, error in acknowledged.items():
            data = told.get(index)
            if data is None:
                data = told[index] = PartitionData(partition_index=index[1], records=b"")
            if error is not None:
                data.acknowledge_error_code, data.acknowledge_error_message = error.code, error.message
        topics: dict[object, ShareFetchableTopicResponse] = {}
        for (topic_id, _), data in told.items():
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = ShareFetchableTopicResponse(topic_id, [])
                response.responses.append(topic)
            topic.partitions.append(data)
        if self._request.share_session_epoch == FINAL_EPOCH:
            share.sessions.release((self._group_id, self._member_id))
        return response

    def _data(self, index: Index, one: Fetched, response: ShareFetchResponse) -> PartitionData:
        data = PartitionData(
            partition_index=index[1],
            error_code=0 if one.error is None else one.error.code,
            records=b"" if one.records is None else one.records,
            acquired_records=[AcquiredRecords(*run) for run in one.acquired],
        )
        topic = self._context.node.image.topics.by_id.get(index[0])
        if topic is None:
            return data
        if one.records is not None:
            stats = self._context.broker.replicas.stats_of(topic.name)
            stats.bytes_out += one.records.size
        elif isinstance(one.error, NotLeaderOrFollower | FencedLeaderEpoch):
            self._tell_leader(topic.name, data, response)
        return data

    def _tell_leader(self, topic: str, data: PartitionData, response: ShareFetchResponse) -> None:
        broker = self._context.broker
        leader = current_leader(broker.replicas, topic, data.partition_index, self._context.listener_name)
        data.current_leader = LeaderIdAndEpoch(leader.id, leader.epoch)
        if leader.broker is not None and leader.endpoint is not None:
            node = NodeEndpoint(leader.id, leader.endpoint.host, leader.endpoint.port, leader.broker.rack)
            if all(known.node_id != node.node_id for known in response.node_endpoints):
                response.node_endpoints.append(node)
