"""`Controller`: answers the requests that change metadata, while its node leads the metadata quorum.

Promises: an answer is given only when the records it rests on are committed, and `RequestTimedOut` raised when they
are not by the request's deadline. A request that cannot be decided at all raises a `KafkaError`; what is wrong with a
part of a request is in the answer. A controller that does not lead, or has more uncommitted than it may, raises
`NotController` and changes nothing.
Called by brokers, in this process or through their connection; driven by raft, whose listener it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ottla.config import BrokerConfig
from ottla.errors import NotController, RequestTimedOut, UnknownTopicOrPartition, UnsupportedVersion
from ottla.machine import Machine, Result
from ottla.metadata.control.activation import abort_record, first_records
from ottla.metadata.control.config_requests import ConfigRequests
from ottla.metadata.control.config_rules import TableRules
from ottla.metadata.control.creation import RECORDS_PER_REQUEST_MAX, Creation, check_record_count
from ottla.metadata.control.elections import Elections
from ottla.metadata.control.feature_updates import FeatureUpdates
from ottla.metadata.control.gauges import Gauge, read_gauges
from ottla.metadata.control.heartbeats import Heartbeats, Suspect
from ottla.metadata.control.isr import IsrChanges
from ottla.metadata.control.lifecycle import HeartbeatReply, Lifecycle
from ottla.metadata.control.periodic import PeriodicTasks
from ottla.metadata.control.reassignments import Reassignments
from ottla.metadata.control.replica_dirs import ReplicaDirs
from ottla.metadata.control.state import ControlState
from ottla.metadata.registration import BrokerImage
from ottla.metadata.topic_names import CLUSTER_METADATA_TOPIC
from ottla.wire import Message
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.update_features import UpdateFeaturesRequest
from ottla.wire.metadata import NoOpRecord, VersionedRecord
from ottla.world import NodeWorld, Promise, Timer

if TYPE_CHECKING:
    from ottla.raft import CommittedBatch

log = logging.getLogger(__name__)

T = TypeVar("T")

STALE_CHECKS_PER_SESSION = 8
"""How often in a session timeout the controller looks for brokers to fence."""

RECORDS_PER_BATCH_MAX = RECORDS_PER_REQUEST_MAX
"""Where records that need not be atomic are cut into batches of the metadata log: what a broker's end comes to is as
large as the broker was, and a batch has an end."""


# What clients ask for is bounded. What follows from a broker's end is not: it is as large as the broker was.
_FROM_CLIENTS: frozenset[type[Message]] = frozenset(
    {
        CreateTopicsRequest,
        DeleteTopicsRequest,
        CreatePartitionsRequest,
        AlterConfigsRequest,
        IncrementalAlterConfigsRequest,
        ElectLeadersRequest,
        AlterPartitionReassignmentsRequest,
        UpdateFeaturesRequest,
    }
)

# Those whose time-out acts in Kafka: UpdateFeatures has one too, and Kafka does not look at it.
_WITH_TIMEOUT = (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    AlterPartitionReassignmentsRequest,
)


class Voters(Protocol):
    """The members of the quorum: `VoterSet`."""

    @property
    def ids(self) -> Collection[int]: ...


class Quorum(Protocol):
    """What the controller asks of raft: `RaftNode`."""

    @property
    def voters(self) -> Voters: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def kraft_version(self) -> int: ...

    def append(self, records: Sequence[VersionedRecord]) -> int: ...

    def describe_quorum(self, version: int = 2) -> DescribeQuorumResponse: ...


class Probes(Protocol):
    """The way to ask the hosts of brokers about them: `ottla.node.probes`."""

    def ask(self, broker: BrokerImage, on_refused: Callable[[], object]) -> None:
        """Call `on_refused`, and not from inside this call, if the host says that nobody listens where the broker did,
        which was reached there before. No answer, or that nobody can say, is not told."""
        ...


class Carrier(Protocol):
    """What a heartbeat came over: a connection."""

    @property
    def is_closed(self) -> bool: ...

    def when_closed(self, call: Callable[[], object], /) -> None: ...


class Controller:
    """One node's controller: active while the node leads, else a standby that replays."""

    def __init__(
        self,
        world: NodeWorld,
        raft: Quorum,
        config: BrokerConfig,
        *,
        cluster_id: str,
        bootstrap: Sequence[VersionedRecord],
        probes: Probes | None = None,
    ) -> None:
        """`bootstrap` is what an empty log gets: the records of `bootstrap.checkpoint`. `raft.subscribe(controller)`
        is left to the caller, who knows which listener comes first. Without `probes` every broker has its session to
        the end."""
        self._world = world
        self._raft = raft
        self._config = config
        self._cluster_id = cluster_id
        self._bootstrap = bootstrap
        self._probes = probes
        self._ask_timer: Timer | None = None
        self._subject = f"[QuorumController id={config.node_id}]"
        self._rules = TableRules(config)
        self._periodic = PeriodicTasks(world.tasks, self._submit)
        self._handlers: dict[type[Message], Callable[[Any, int], Result[Any]]] = {}
        self._activation_count = 0
        self._decision_count = 0
        self._timed_out_count = 0
        self._timed_out_heartbeat_count = 0
        self._reset()

    def _reset(self) -> None:
        """Know nothing, as before the first record."""
        config = self._config
        state = ControlState(self._rules, node_id=config.node_id, quorum_ids=lambda: self._raft.voters.ids)
        self._state = state
        self._machine: Machine[VersionedRecord] = Machine(
            state.replay,
            self._raft.append,
            promise=self._world.tasks.promise,
            undo=state.undo,
            batch_records_max=RECORDS_PER_BATCH_MAX,
        )
        elections = Elections(state.topics, state.brokers, state.configs, state.features)
        creation = Creation(
            self._world,
            state.topics,
            state.brokers,
            state.configs,
            state.features,
            elections,
            default_partition_count=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
        )
        configs = ConfigRequests(state.configs)
        features = FeatureUpdates(state.features, state.configs, state.brokers)
        isr = IsrChanges(state.topics, state.brokers, state.configs, elections)
        directories = ReplicaDirs(state.topics, state.brokers, state.features, elections)
        reassignments = Reassignments(state.topics, state.configs, elections, creation)
        self._elections = elections
        self._lifecycle = Lifecycle(state.brokers, elections, state.features, cluster_id=self._cluster_id)
        self._handlers = {
            CreateTopicsRequest: lambda request, _: self._logged(creation.create_topics(request)),
            DeleteTopicsRequest: lambda request, version: self._logged(
                creation.delete_topics(request, version=version, is_enabled=config.delete_topic_enable)
            ),
            CreatePartitionsRequest: lambda request, _: creation.create_partitions(request),
            AlterConfigsRequest: lambda request, _: configs.replace(request),
            IncrementalAlterConfigsRequest: lambda request, _: configs.alter(request),
            UpdateFeaturesRequest: lambda request, version: features.update(
                request, version=version, kraft_version=self._raft.kraft_version
            ),
            ElectLeadersRequest: lambda request, _: elections.elect_leaders(request),
            AlterPartitionRequest: lambda request, version: isr.alter(request, version=version),
            AssignReplicasToDirsRequest: lambda request, _: directories.assign(request),
            AlterPartitionReassignmentsRequest: lambda request, _: reassignments.alter(request),
            ListPartitionReassignmentsRequest: lambda request, _: Result(reassignments.list(request)),
            AllocateProducerIdsRequest: self._allocate_producer_ids,
            BrokerRegistrationRequest: self._register_broker,
            BrokerHeartbeatRequest: self._heartbeat,
            UnregisterBrokerRequest: self._unregister_broker,
            ControllerRegistrationRequest: self._register_controller,
            DescribeQuorumRequest: self._describe_quorum,
        }

    @property
    def is_active(self) -> bool:
        """Whether this node decides."""
        return self._machine.is_active

    def gauges(self) -> list[Gauge]:
        """The values of Kafka's `kafka.controller:type=KafkaController` metrics now."""
        committed = self._machine.committed_end - 1
        return [
            Gauge("ActiveControllerCount", int(self.is_active)),
            Gauge("LastAppliedRecordOffset", committed),
            Gauge("LastCommittedRecordOffset", committed),
            Gauge("NewActiveControllersCount", self._activation_count),
            Gauge("EventQueueOperationsStartedCount", self._decision_count),
            Gauge("EventQueueOperationsTimedOutCount", self._timed_out_count),
            Gauge("TimedOutBrokerHeartbeatCount", self._timed_out_heartbeat_count),
            *read_gauges(self._state, self._world.clock),
        ]

    # Requests

    async def handle(self, request: Message, *, version: int, deadline_ms: float | None = None) -> Message:
        """The answer to a request of one of the classes above, in the form of `version`.

        `deadline_ms` is when the caller stops waiting, in monotonic time: `timeout_ms` of the request from now, unless
        given, or `request.timeout.ms` where the request has none. What is decided by then may be committed after it.
        """
        now_ms = self._world.clock.monotonic_ms()
        if deadline_ms is None:
            deadline_ms = now_ms + self._timeout_ms(request)
        if deadline_ms <= now_ms:
            raise RequestTimedOut()
        decide = self._handlers.get(type(request))
        if decide is None:
            raise UnsupportedVersion(f"A controller does not answer {type(request).__name__}")
        handler = decide

        def bounded() -> Result[Message]:
            result = handler(request, version)
            if type(request) in _FROM_CLIENTS:
                check_record_count(result.records)
            return result

        promise = self._submit(type(request).__name__, bounded)
        if not promise.done():

            def time_out() -> None:
                if not promise.done():
                    self._timed_out_count += 1
                    self._timed_out_heartbeat_count += isinstance(request, BrokerHeartbeatRequest)
                    promise.set_exception(RequestTimedOut())

            timer = self._world.tasks.later(deadline_ms - now_ms, time_out)
            promise.add_done_callback(lambda _: timer.cancel())
        response: Message = await promise
        return response

    def _timeout_ms(self, request: Message) -> int:
        if isinstance(request, _WITH_TIMEOUT):
            return request.timeout_ms
        return self._config.request_timeout_ms

    def _submit(self, name: str, decide: Callable[[], Result[T]]) -> Promise[T]:
        self._state.next_offset = self._raft.log_end_offset
        self._decision_count += 1
        return self._machine.submit(name, decide)

    def _logged(self, result: Result[T]) -> Result[T]:
        """Topics that come and go are what an operator asks about first."""
        response = result.response
        if isinstance(response, CreateTopicsResponse):
            for topic in response.topics:
                outcome = topic.error_message if topic.error_code else f"created with id {topic.topic_id}"
                log.info("%s CreateTopics result: %s: %s", self._subject, topic.name, outcome)
        elif isinstance(response, DeleteTopicsResponse):
            for gone in response.responses:
                outcome = gone.error_message if gone.error_code else "deleted"
                log.info("%s DeleteTopics result: %s %s: %s", self._subject, gone.name, gone.topic_id, outcome)
        return result

    def _allocate_producer_ids(self, request: AllocateProducerIdsRequest, _: int) -> Result[Message]:
        self._state.brokers.check_epoch(request.broker_id, request.broker_epoch)
        result = self._state.producer_ids.allocate(request.broker_id, request.broker_epoch)
        block = result.response
        response = AllocateProducerIdsResponse(producer_id_start=block.first_id, producer_id_len=block.size)
        return _with_response(result, response)

    def _register_broker(self, request: BrokerRegistrationRequest, version: int) -> Result[Message]:
        result = self._lifecycle.register_broker(
            request,
            version=version,
            next_offset=self._raft.log_end_offset,
            kraft_version=self._raft.kraft_version,
        )
        log.info(
            "%s Registering broker %d, incarnation %s, at broker epoch %d (%d records)",
            self._subject, request.broker_id, request.incarnation_id, result.response, len(result.records),
        )  # fmt: skip
        return _with_response(result, BrokerRegistrationResponse(broker_epoch=result.response))

    def _heartbeat(self, request: BrokerHeartbeatRequest, _: int) -> Result[Message]:
        result = self._lifecycle.heartbeat(request)
        reply: HeartbeatReply = result.response
        if result.records:
            state = "fenced" if reply.is_fenced else "in controlled shutdown" if reply.is_shutting_down else "unfenced"
            log.info("%s Broker %d is %s (%d records)", self._subject, request.broker_id, state, len(result.records))
        response: Message = BrokerHeartbeatResponse(
            is_caught_up=reply.is_caught_up,
            is_fenced=reply.is_fenced,
            should_shut_down=reply.should_shut_down,
        )
        return _with_response(result, response)

    def _unregister_broker(self, request: UnregisterBrokerRequest, _: int) -> Result[Message]:
        result = self._lifecycle.unregister_broker(request.broker_id)
        log.info("%s Unregistering broker %d", self._subject, request.broker_id)
        return _with_response(result, UnregisterBrokerResponse(error_message=None))

    def _register_controller(self, request: ControllerRegistrationRequest, _: int) -> Result[Message]:
        result = self._lifecycle.register_controller(request)
        return _with_response(result, ControllerRegistrationResponse(error_message=None))

    def _describe_quorum(self, request: DescribeQuorumRequest, version: int) -> Result[Message]:
        asked = [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in request.topics]
        if asked == [(CLUSTER_METADATA_TOPIC, [0])]:
            return Result(self._raft.describe_quorum(version))
        unknown = UnknownTopicOrPartition()
        topics = [
            DescribeQuorumResponseTopicData(
                name,
                [
                    DescribeQuorumResponsePartitionData(index, error_code=unknown.code, error_message=unknown.message)
                    for index in indexes
                ],
            )
            for name, indexes in asked
        ]
        return Result(DescribeQuorumResponse(topics=topics))

    # What raft tells

    def on_commit(self, batches: list[CommittedBatch]) -> None:
        for batch in batches:
            self._state.next_offset = batch.base_offset
            self._machine.on_commit(batch.base_offset, batch.records, end_offset=batch.end_offset)

    def on_snapshot(self, records: Iterable[VersionedRecord], *, offset: int, epoch: int, timestamp_ms: int) -> None:
        assert not self.is_active, "a leader makes snapshots, it does not take them"
        self._reset()
        for record in records:
            # A snapshot tells what is, not when it came to be; its brokers have seen their registrations.
            self._state.next_offset = offset
            self._state.replay(record)
        self._machine.on_committed(offset + 1)

    def on_leader(self, epoch: int) -> None:
        """Take over: give brokers a new session, and write what an empty or interrupted log needs."""
        state, config = self._state, self._config
        log.info("%s Becoming the active controller at epoch %d", self._subject, epoch)
        self._machine.on_leader()
        self._activation_count += 1
        heartbeats = Heartbeats(
            self._world.clock, config.broker_session_timeout_ms, config.broker_heartbeat_interval_ms
        )
        for broker in state.brokers.brokers.values():
            if not broker.is_fenced:
                # This node's own broker is this process, which holds the lock on its directories: an earlier life of it
                # is over for certain, and the new one need not wait for a session to end that nobody keeps up.
                is_own = broker.id == config.node_id and config.is_broker
                heartbeats.take_over(broker.id, broker.epoch, is_over=is_own)
        state.brokers.heartbeats = heartbeats
        self._submit("completeActivation", self._activate).add_done_callback(self._on_activated)
        self._submit("electLeaderless", self._elections.elect_leaderless).add_done_callback(self._on_activated)
        self._periodic.start(self._periodic_tasks())
        self._ask_hosts()

    def on_resign(self) -> None:
        log.info("%s No longer the active controller", self._subject)
        self._periodic.stop()
        self._stop_asking()
        self._state.brokers.heartbeats = None
        self._machine.on_resign()

    def _activate(self) -> Result[None]:
        state = self._state
        records = [abort_record()] if state.is_in_transaction else []
        if not state.features.is_known:
            minimum = state.configs.static_min_insync_replicas()
            records += first_records(self._bootstrap, min_insync_replicas=minimum)
            log.info("%s The metadata log is empty: writing %d bootstrap records", self._subject, len(records))
        return Result(None, records)

    def _on_activated(self, promise: Promise[None]) -> None:
        try:
            promise.result()
        except NotController:
            log.info("%s Leadership was lost before the take-over was committed", self._subject)
        except Exception:
            log.exception("%s The controller could not take over", self._subject)

    def _periodic_tasks(self) -> dict[str, tuple[float, Callable[[], Result[bool]]]]:
        config = self._config
        tasks: dict[str, tuple[float, Callable[[], Result[bool]]]] = {
            "maybeFenceStaleBroker": (
                max(1, config.broker_session_timeout_ms / STALE_CHECKS_PER_SESSION),
                self._fence_stale,
            ),
            "electUnclean": (config.unclean_leader_election_interval_ms, self._elections.elect_uncleanly),
        }
        if config.metadata_max_idle_interval_ms > 0:
            tasks["writeNoOpRecord"] = (config.metadata_max_idle_interval_ms, _no_op)
        if config.auto_leader_rebalance_enable:
            interval_ms = config.leader_imbalance_check_interval_seconds * 1000
            tasks["electPreferred"] = (interval_ms, self._elections.balance)
        return tasks

    # Brokers that may be gone

    def heard_over(self, broker_id: int, epoch: int, carrier: Carrier) -> None:
        """A heartbeat has come over this connection: should it close, the broker's host is asked about the broker."""
        heartbeats = self._state.brokers.heartbeats
        session = None if heartbeats is None else heartbeats.find(broker_id, epoch)
        if session is None or session.connection is carrier:
            return
        session.connection = carrier

        def on_closed() -> None:
            heartbeats = self._state.brokers.heartbeats
            if heartbeats is not None and heartbeats.on_disconnected(broker_id, epoch, carrier):
                self._ask_hosts()

        if carrier.is_closed:
            on_closed()
        else:
            carrier.when_closed(on_closed)

    def _ask_hosts(self) -> None:
        """Ask about every broker that is due, and again when the next one is."""
        self._stop_asking()
        heartbeats, probes = self._state.brokers.heartbeats, self._probes
        if heartbeats is None or probes is None:
            return
        for suspect in heartbeats.suspects():
            broker = self._state.brokers.brokers.get(suspect.broker_id)
            if broker is not None and broker.epoch == suspect.epoch and not broker.is_fenced:
                probes.ask(broker, partial(self._on_refused, suspect))
        delay_ms = heartbeats.next_ask_ms - self._world.clock.monotonic_ms()
        delay_ms = max(1, min(delay_ms, self._config.broker_heartbeat_interval_ms))
        self._ask_timer = self._world.tasks.later(delay_ms, self._ask_hosts)

    def _stop_asking(self) -> None:
        timer, self._ask_timer = self._ask_timer, None
        if timer is not None:
            timer.cancel()

    def _on_refused(self, suspect: Suspect) -> None:
        if self.is_active:
            promise = self._submit("fenceRefusedBroker", lambda: self._fence_refused(suspect))
            promise.add_done_callback(self._on_fenced)

    def _fence_refused(self, suspect: Suspect) -> Result[bool]:
        result = self._lifecycle.fence_refused(suspect)
        if result.response:
            log.warning(
                "%s Fencing broker %d at epoch %d before its session times out: its host refuses connections",
                self._subject, suspect.broker_id, suspect.epoch,
            )  # fmt: skip
        return result

    def _on_fenced(self, promise: Promise[bool]) -> None:
        try:
            promise.result()
        except NotController:
            pass  # the next leader asks for itself; or too much is uncommitted, and the question comes again
        except Exception:
            log.exception("%s A broker that is gone could not be fenced", self._subject)

    def _fence_stale(self) -> Result[bool]:
        result = self._lifecycle.fence_one_stale()
        if result.records:
            log.warning("%s Fencing a broker because its session has timed out", self._subject)
        return result


def _no_op() -> Result[bool]:
    return Result(False, [VersionedRecord(NoOpRecord(), 0)])


def _with_response(result: Result[Any], response: Message) -> Result[Message]:
    """A decision, answered in the form of the protocol."""
    return replace(result, response=response)
