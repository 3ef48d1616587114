"""Fetching and acknowledging with all brokers of a share consumer: one request at a time to each, in sessions.

Records are fetched only while the user waits for them, because the locks on them run from the moment they are acquired;
acknowledgements ride on the next fetch where there is one, and go by themselves where there is none. Promises: every
acknowledgement gets one answer, through `on_told`: stored, refused, or lost with the broker that it was meant for (the
records are then delivered again, once their locks have run out); one that fails for now is sent again until its
deadline. Called by `ShareCore`, on the loop.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.client.config import ShareConsumerConfig
from ottla.client.errors import ClientClosed, KafkaTimeout
from ottla.client.metrics import ShareFetchMetrics
from ottla.client.network import Metadata, NetworkClient, Node, within
from ottla.client.share.acknowledgements import Acknowledgements
from ottla.client.share.delivered import Acquired
from ottla.client.share.session import Acks, FetchLimits, IdPartition, ShareSession
from ottla.errors import (
    FencedLeaderEpoch,
    GroupAuthorizationFailed,
    InvalidRecordState,
    InvalidShareSessionEpoch,
    KafkaError,
    NotLeaderOrFollower,
    ShareSessionLimitReached,
    ShareSessionNotFound,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    error_class,
)
from ottla.types import TopicPartition, Uuid
from ottla.wire.messages.share_acknowledge import ShareAcknowledgeResponse
from ottla.wire.messages.share_fetch import PartitionData, ShareFetchResponse
from ottla.world import Promise

log = logging.getLogger(__name__)

ACQUIRE_MODES = {"BATCH_OPTIMIZED": 0, "RECORD_LIMIT": 1}
SESSION_ERRORS = (ShareSessionNotFound, InvalidShareSessionEpoch, ShareSessionLimitReached)
LOST_ERRORS = (NotLeaderOrFollower, FencedLeaderEpoch, UnknownTopicOrPartition, UnknownTopicId)
"""The locks are gone with the leader, or the topic: trying again would be of no use."""

OnTold = Callable[[IdPartition, Acknowledgements, KafkaError | None], object]
Answers = dict[IdPartition, KafkaError | None]


class _Request:
    """Acknowledgements for one broker, and who waits for all of their answers."""

    __slots__ = ("acks", "answers", "deadline_ms", "failures", "on_done")

    def __init__(
        self, acks: dict[IdPartition, Acknowledgements], deadline_ms: float, on_done: Callable[[Answers], object]
    ) -> None:
        self.acks = acks
        self.deadline_ms = deadline_ms
        self.on_done = on_done
        self.answers: Answers = {}
        self.failures = 0


class _Link:
    """One broker."""

    __slots__ = ("failures", "is_busy", "node_id", "session", "waiting")

    def __init__(self, node_id: int, session: ShareSession) -> None:
        self.node_id = node_id
        self.session = session
        self.is_busy = False
        """A request is with the broker, or the next one waits for a backoff to end."""
        self.waiting: deque[_Request] = deque()
        self.failures = 0


class ShareFetcher:
    def __init__(
        self,
        network: NetworkClient,
        metadata: Metadata,
        config: ShareConsumerConfig,
        *,
        group_id: str,
        member_id: str,
        assignment: Callable[[], Mapping[TopicPartition, IdPartition]],
        metrics: ShareFetchMetrics,
        on_told: OnTold,
        on_arrived: Callable[[], object],
    ) -> None:
        self._network = network
        self._world = network.world
        self._metadata = metadata
        self._config = config
        self._group_id = group_id
        self._member_id = member_id
        self._assignment = assignment
        self._metrics = metrics
        self._tell = on_told
        self._on_arrived = on_arrived
        self._mode = ACQUIRE_MODES[config.share_acquire_mode.upper()]
        self._limits = FetchLimits(
            config.fetch_max_wait_ms,
            config.fetch_min_bytes,
            config.fetch_max_bytes,
            config.max_poll_records,
            config.max_poll_records,
        )
        self._links: dict[int, _Link] = {}
        self._is_wanting = False
        """Somebody waits for records."""
        self._turn = -1
        """With record_limit: the broker that was asked for records last."""
        self.arrived: deque[Acquired] = deque()
        self.errors: deque[KafkaError] = deque(maxlen=16)
        """What the user must hear of."""
        self.acquisition_lock_timeout_ms: int | None = None
        self._is_closed = False

    # What the consumer calls

    def want(self, acks: Mapping[int, Acks]) -> None:
        """Fetch until something was acquired, or `stop_wanting`; acknowledge these on the way, by broker."""
        self._is_wanting = True
        leading = self._leading()
        for node_id, found in acks.items():
            link = self._links.get(node_id)
            if link is None or link.is_busy or link.session.is_new or node_id not in leading or not self._is_turn(link):
                self.acknowledge({node_id: found}, self._config.default_api_timeout_ms, lambda _: None)
            else:
                self._send_fetch(link, leading[node_id], dict(found))
        for node_id in leading:
            self._go_on(self._link(node_id))

    def stop_wanting(self) -> None:
        """Nobody waits any more: fetches that are under way are the last."""
        self._is_wanting = False

    def acknowledge(
        self, acks: Mapping[int, Acks], timeout_ms: float | None, on_done: Callable[[Answers], object]
    ) -> None:
        """Send these to their brokers; `on_done` gets all answers once they are there."""
        answers: Answers = {}
        left = sum(1 for found in acks.values() if found)
        if not left:
            on_done(answers)
            return

        def done(told: Answers) -> None:
            nonlocal left
            answers.update(told)
            left -= 1
            if not left:
                on_done(answers)

        deadline_ms = self._world.clock.monotonic_ms() + (
            self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        )
        for node_id, found in acks.items():
            if found:
                link = self._link(node_id)
                link.waiting.append(_Request(dict(found), deadline_ms, done))
                self._go_on(link)

    async def acknowledge_and_wait(self, acks: Mapping[int, Acks], timeout_ms: float | None) -> Answers:
        """The answers to these; those that did not come in time have `KafkaTimeout`."""
        done: Promise[Answers] = self._world.tasks.promise()
        self.acknowledge(acks, timeout_ms, lambda told: None if done.done() else done.set_result(told))
        limit_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        try:
            return await within(self._world, done, limit_ms, "acknowledging")
        except KafkaTimeout as error:
            return {key: error for found in acks.values() for key in found}

    async def end_sessions(self, timeout_ms: float) -> None:
        """Tell every broker that this member is done: what it has acquired and not acknowledged is released."""
        self.stop_wanting()
        self.arrived.clear()
        deadline_ms = self._world.clock.monotonic_ms() + timeout_ms
        links, self._links = self._links, {}
        for link in links.values():
            while link.is_busy and self._world.clock.monotonic_ms() < deadline_ms:
                await self._world.tasks.sleep_ms(10)
            left_ms = deadline_ms - self._world.clock.monotonic_ms()
            if link.is_busy or link.session.is_new or left_ms <= 0:
                continue
            request = link.session.acknowledge_request({}, is_final=True)
            try:
                await self._network.send(link.node_id, request, timeout_ms=left_ms)
            except KafkaError as error:
                log.info("[%s] The share session with node %d was not ended: %s", self._network.name, link.node_id,
                         error)  # fmt: skip
        self.arrived.clear()

    def close(self) -> None:
        """Send nothing any more; who waits is told."""
        self._is_closed = True
        links, self._links = self._links, {}
        for link in links.values():
            waiting, link.waiting = link.waiting, deque()
            for request in waiting:
                self._finish(request, dict.fromkeys(request.acks, ClientClosed("The share consumer is closed")))

    # Who is asked

    def _leading(self) -> dict[int, dict[TopicPartition, IdPartition]]:
        """The assigned partitions by their leaders; metadata is asked for where there is none."""
        found: dict[int, dict[TopicPartition, IdPartition]] = {}
        for partition, key in self._assignment().items():
            leader = self._metadata.cluster.leader(partition)
            if leader is None:
                self._metadata.request_update()
            else:
                found.setdefault(leader.node_id, {})[partition] = key
        return found

    def _link(self, node_id: int) -> _Link:
        link = self._links.get(node_id)
        if link is None:
            session = ShareSession(self._group_id, self._member_id, acquire_mode=self._mode)
            link = self._links[node_id] = _Link(node_id, session)
        return link

    def _is_turn(self, link: _Link) -> bool:
        """With record_limit only one broker at a time is asked for records, so that there are never too many."""
        if self._mode == 0:
            return True
        return not any(other.is_busy for other in self._links.values() if other is not link)

    def _go_on(self, link: _Link) -> None:
        """Send the broker what is to be sent next, if it is free."""
        if link.is_busy or self._is_closed or self._links.get(link.node_id) is not link:
            return
        if link.waiting:
            self._send_acknowledgements(link)
            return
        if not self._is_wanting or not self._is_turn(link):
            return
        leading = self._leading()
        if self._mode and len(leading) > 1 and link.node_id == self._turn:
            return  # another one's turn
        if link.node_id in leading:
            self._send_fetch(link, leading[link.node_id], {})

    def _go_on_all(self) -> None:
        for node_id in [*self._links, *self._leading()]:
            self._go_on(self._link(node_id))

    def _free(self, link: _Link, delay_ms: float = 0.0) -> None:
        """The broker has answered: it may be asked again, after a backoff if need be."""

        def go_on() -> None:
            link.is_busy = False
            self._go_on(link)
            if self._mode:
                self._go_on_all()

        if delay_ms:
            self._world.tasks.later(delay_ms, go_on)
        else:
            go_on()

    # Fetch

    def _send_fetch(
        self, link: _Link, wanted: Mapping[TopicPartition, IdPartition], acks: dict[IdPartition, Acknowledgements]
    ) -> None:
        request = link.session.fetch_request(wanted.values(), acks, self._limits)
        names = {key: partition for partition, key in wanted.items()}
        link.is_busy = True
        self._turn = link.node_id
        begun_ms = self._world.clock.monotonic_ms()
        self._note_sent(acks)

        def answered(response: Any, error: KafkaError | None) -> None:
            if self._is_closed:
                return
            if error is None and response.error_code:
                link.session.on_answer(response.error_code)
                error = error_class(response.error_code)(response.error_message or "")
            elif error is not None:
                link.session.reset()
            else:
                link.session.on_answer(0)
            if error is not None:
                self._tell_all(acks, error)
                self._on_fetch_failed(link, error)
                return
            link.failures = 0
            self._metrics.answered(self._world.clock.monotonic_ms() - begun_ms, response.throttle_time_ms)
            self._on_fetched(link, response, names, acks)
            self._free(link)

        self._network.send_then(link.node_id, request, answered)

    def _on_fetch_failed(self, link: _Link, error: KafkaError) -> None:
        log.info("[%s] ShareFetch from node %d failed: %s", self._network.name, link.node_id, error)
        self._metadata.request_update()
        if isinstance(error, GroupAuthorizationFailed):
            self.fail(GroupAuthorizationFailed(f"Not authorized to access group: {self._group_id}"))
        elif not error.retriable and not isinstance(error, SESSION_ERRORS):
            self.fail(error)
        delay_ms = self._network.retry_backoff.delay_ms(link.failures)
        link.failures += 1
        self._free(link, delay_ms)

    def _on_fetched(
        self,
        link: _Link,
        response: ShareFetchResponse,
        names: Mapping[IdPartition, TopicPartition],
        acks: dict[IdPartition, Acknowledgements],
    ) -> None:
        if response.acquisition_lock_timeout_ms > 0:
            self.acquisition_lock_timeout_ms = response.acquisition_lock_timeout_ms
        told: set[IdPartition] = set()
        nodes = [Node(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
        for topic in response.responses:
            for one in topic.partitions:
                key = IdPartition(Uuid(topic.topic_id), one.partition_index)
                if key in acks:
                    told.add(key)
                    code = one.acknowledge_error_code
                    error = error_class(code)(one.acknowledge_error_message or "") if code else None
                    self._on_told(key, acks[key], error)
                if key in names:
                    self._on_partition(link, names[key], key, one, nodes)
        left = {key: found for key, found in acks.items() if key not in told}
        self._tell_all(left, InvalidRecordState("The broker's answer does not speak of these acknowledgements"))
        if self.arrived:
            self._is_wanting = False
            self._on_arrived()

    def _on_partition(
        self, link: _Link, partition: TopicPartition, key: IdPartition, data: PartitionData, nodes: Iterable[Node]
    ) -> None:
        if not data.error_code:
            if data.acquired_records:
                count = sum(one.last_offset - one.first_offset + 1 for one in data.acquired_records)
                self._metrics.consumed(len(data.records or b""), count)
                self.arrived.append(
                    Acquired(
                        partition,
                        key,
                        link.node_id,
                        data.records,  # type: ignore[arg-type]  # what was received is a buffer
                        data.acquired_records,
                        check_crcs=self._config.check_crcs,
                    )
                )
            return
        error = error_class(data.error_code)(data.error_message or "")
        log.info("[%s] ShareFetch of %s from node %d: %s", self._network.name, partition, link.node_id, error)
        if isinstance(error, TopicAuthorizationFailed):
            self.fail(TopicAuthorizationFailed(f"Not authorized to access topics: {partition.topic}"))
        elif not self._note_leader(partition, data, nodes):
            self._metadata.request_update()

    def _note_leader(self, partition: TopicPartition, data: Any, nodes: Iterable[Node]) -> bool:
        """A refusal may tell who leads now (KIP-951); whether that was news."""
        leader = data.current_leader
        return self._metadata.update_leader(partition, leader.leader_id, leader.leader_epoch, nodes)

    def fail(self, error: KafkaError) -> None:
        """The next poll raises this."""
        self.errors.append(error)
        self._on_arrived()

    # Acknowledge

    def _send_acknowledgements(self, link: _Link) -> None:
        """All that wait for the broker, in one request."""
        now_ms = self._world.clock.monotonic_ms()
        requests: list[_Request] = []
        merged: dict[IdPartition, Acknowledgements] = {}
        waiting, link.waiting = link.waiting, deque()
        for request in waiting:
            if request.deadline_ms <= now_ms:
                late = KafkaTimeout("The acknowledgements were not stored in time")
                self._finish(request, dict.fromkeys(request.acks, late))
            elif link.session.is_new:
                # The broker has forgotten the session, and with it what it gave.
                lost = InvalidShareSessionEpoch("The share session is lost: the records are delivered again")
                self._finish(request, dict.fromkeys(request.acks, lost))
            else:
                requests.append(request)
                for key, found in request.acks.items():
                    merged.setdefault(key, Acknowledgements({})).merge(found)
        if not merged:
            self._go_on(link)
            return
        link.is_busy = True
        self._note_sent(merged)
        request_message = link.session.acknowledge_request(merged)

        def answered(response: Any, error: KafkaError | None) -> None:
            if self._is_closed:
                error = ClientClosed("The share consumer is closed")
            if error is not None:
                link.session.reset()
                self._metadata.request_update()
                self._on_acknowledged(link, requests, dict.fromkeys(merged, error))
            else:
                self._on_acknowledged(link, requests, self._answers(link, response, merged))

        timeout_ms = min(max(request.deadline_ms for request in requests) - now_ms, self._config.request_timeout_ms)
        self._network.send_then(link.node_id, request_message, answered, timeout_ms=max(timeout_ms, 1))

    def _answers(self, link: _Link, response: ShareAcknowledgeResponse, sent: Acks) -> Answers:
        link.session.on_answer(response.error_code)
        if response.error_code:
            error = error_class(response.error_code)(response.error_message or "")
            return dict.fromkeys(sent, error)
        if response.acquisition_lock_timeout_ms > 0:
            self.acquisition_lock_timeout_ms = response.acquisition_lock_timeout_ms
        silent = InvalidRecordState("The broker's answer does not speak of these acknowledgements")
        answers: Answers = dict.fromkeys(sent, silent)
        nodes = [Node(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
        names = {key: partition for partition, key in self._assignment().items()}
        for topic in response.responses:
            for one in topic.partitions:
                key = IdPartition(Uuid(topic.topic_id), one.partition_index)
                answers[key] = error_class(one.error_code)(one.error_message or "") if one.error_code else None
                if one.error_code and key in names and not self._note_leader(names[key], one, nodes):
                    self._metadata.request_update()
        return answers

    def _on_acknowledged(self, link: _Link, requests: Iterable[_Request], answers: Answers) -> None:
        """Tell those whose answer is final; what failed for now waits for another try."""
        delay_ms = 0.0
        for request in requests:
            again: dict[IdPartition, Acknowledgements] = {}
            final: Answers = {}
            for key, found in request.acks.items():
                error = answers[key]
                if error is not None and self._may_retry(link, error):
                    again[key] = found
                else:
                    final[key] = error
            done, request.acks = {key: request.acks[key] for key in final}, again
            for key, found in done.items():
                request.answers[key] = final[key]
                self._on_told(key, found, final[key])
            if again:
                delay_ms = max(delay_ms, self._network.retry_backoff.delay_ms(request.failures))
                request.failures += 1
                link.waiting.append(request)
            else:
                request.on_done(request.answers)
        self._free(link, delay_ms)

    def _may_retry(self, link: _Link, error: KafkaError) -> bool:
        if link.session.is_new or isinstance(error, (*LOST_ERRORS, *SESSION_ERRORS)):
            return False
        return error.retriable

    def _finish(self, request: _Request, answers: Answers) -> None:
        for key, found in request.acks.items():
            self._on_told(key, found, answers[key])
        request.answers.update(answers)
        request.on_done(request.answers)

    def _note_sent(self, acks: Acks) -> None:
        if acks:
            self._metrics.acknowledged(sum(len(found.types) for found in acks.values()))

    def _on_told(self, key: IdPartition, acks: Acknowledgements, error: KafkaError | None) -> None:
        if error is not None:
            self._metrics.refused(len(acks.types))
        self._tell(key, acks, error)

    def _tell_all(self, acks: Acks, error: KafkaError) -> None:
        for key, found in acks.items():
            self._on_told(key, found, error)
