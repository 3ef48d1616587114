"""Who leads: elections that were asked for, and those that follow when a broker comes, goes or loses a disk.

Promises: a broker that goes leaves every ISR that it is in, and what it led gets a leader that may lead, if there is
one. Called by `lifecycle` and for ElectLeaders; `changer` is what every other change of a partition begins with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from ottla.machine import Result
from ottla.metadata.control.brokers import BrokerControl
from ottla.metadata.control.configs import ConfigControl
from ottla.metadata.control.features import FeatureControl
from ottla.metadata.control.partition_change import Election, PartitionChanger, without
from ottla.metadata.control.topics import PartitionId, Topic, TopicControl
from ottla.metadata.directories import MIGRATING
from ottla.metadata.partition import NO_LEADER
from ottla.types import Uuid
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.wire.metadata import VersionedRecord

_ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}

ELECTIONS_PER_ROUND_MAX = 1000
"""How many leaders one round of balancing moves, so that it does not hold up other requests."""
PARTITIONS_PER_ROUND_MAX = 2_000
"""How many partitions one decision takes from a broker whose session has expired: more would hold up the loop."""


class Elections:
    """Decisions about leaders."""

    def __init__(
        self, topics: TopicControl, brokers: BrokerControl, configs: ConfigControl, features: FeatureControl
    ) -> None:
        self._topics = topics
        self._brokers = brokers
        self._configs = configs
        self._features = features

    def changer(
        self,
        topic: Topic,
        index: int,
        *,
        is_alive: Callable[[int], bool] | None = None,
        min_isr: int | None = None,
    ) -> PartitionChanger:
        """A change of a partition. `is_alive` says which brokers to count on, where that is about to change;
        `min_isr` is the topic's effective one, where it has been asked for already."""
        alive = self._brokers.is_active if is_alive is None else is_alive
        partition = topic.partitions[index]

        def may_lead(broker_id: int) -> bool:
            return alive(broker_id) and self._brokers.has_online_dir(broker_id, partition.directory_of(broker_id))

        return PartitionChanger(
            partition,
            topic.id,
            index,
            may_lead=may_lead,
            default_directory=self.default_directory,
            metadata_version=self._features.metadata_version,
            min_isr=self.effective_min_isr(topic) if min_isr is None else min_isr,
            has_elr=self._features.has_elr,
        )

    def default_directory(self, broker_id: int) -> Uuid:
        return self._brokers.default_dir(broker_id) if self._features.metadata_version.has_directories else MIGRATING

    def effective_min_isr(self, topic: Topic) -> int:
        """`min.insync.replicas`, which cannot ask for more replicas than there are."""
        return min(self._configs.min_insync_replicas(topic.name), len(topic.partitions[0].replicas))

    # ElectLeaders

    def elect_leaders(self, request: ElectLeadersRequest) -> Result[ElectLeadersResponse]:
        election = _ELECTIONS.get(request.election_type)
        if election is None:
            raise InvalidRequest(f"Unknown election type {request.election_type}")
        response = ElectLeadersResponse()
        records: list[VersionedRecord] = []
        is_all = request.topic_partitions is None
        if request.topic_partitions is None:
            wanted = [(topic.name, list(topic.partitions)) for topic in self._topics.by_name.values()]
        else:
            wanted = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
        for name, indexes in wanted:
            results = []
            for index in indexes:
                try:
                    records.append(self._elect(name, index, election))
                    results.append(PartitionResult(index, 0, None))
                except ElectionNotNeeded as error:
                    if not is_all:  # who asks for all means those that need one
                        results.append(PartitionResult(index, error.code, error.message))
                except KafkaError as error:
                    results.append(PartitionResult(index, error.code, error.message))
            response.replica_election_results.append(ReplicaElectionResult(name, results))
        return Result(response, records, is_atomic=False)

    def _elect(self, name: str, index: int, election: Election) -> VersionedRecord:
        topic = self._topics.by_name.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"No such topic as {name}")
        partition = topic.partitions.get(index)
        if partition is None:
            raise UnknownTopicOrPartition(f"No such partition as {name}-{index}")
        is_preferred = election is Election.PREFERRED
        if partition.has_preferred_leader if is_preferred else partition.has_leader:
            raise ElectionNotNeeded()
        changer = self.changer(topic, index)
        changer.election = election
        record = changer.build()
        if record is None:
            raise PreferredLeaderNotAvailable() if is_preferred else EligibleLeadersNotAvailable()
        return record

    # What goes on by itself

    def balance(self) -> Result[bool]:
        """Give leadership back to preferred replicas; True when there may be more to give."""
        records: list[VersionedRecord] = []
        for key in list(self._topics.imbalanced):
            if len(records) >= ELECTIONS_PER_ROUND_MAX:
                break
            topic, _ = self._topics.partition(key)
            changer = self.changer(topic, key.partition)
            changer.election = Election.PREFERRED
            record = changer.build()
            if record is not None:
                records.append(record)
        return Result(len(records) >= ELECTIONS_PER_ROUND_MAX, records)

    def elect_uncleanly(self) -> Result[bool]:
        """Leaders for partitions that have none, where the topic would rather lose records than wait."""
        records: list[VersionedRecord] = []
        for key in self._topics.led_by[NO_LEADER]:
            if len(records) >= ELECTIONS_PER_ROUND_MAX:
                break
            topic, _ = self._topics.partition(key)
            if not self._configs.allows_unclean_election(topic.name):
                continue
            changer = self.changer(topic, key.partition)
            changer.election = Election.UNCLEAN
            record = changer.build()
            if record is not None:
                records.append(record)
        return Result(len(records) >= ELECTIONS_PER_ROUND_MAX, records)

    def elect_leaderless(self) -> Result[None]:
        """Leaders for partitions that have none and could have one: an unfencing of many partitions that the last
        controller had begun, and could not end, has left them."""
        return Result(None, self._update(self._topics.led_by[NO_LEADER]), is_atomic=False)

    def has_leaderships(self, broker_id: int) -> bool:
        return self._topics.led_by.has_any(broker_id)

    def without_broker(self, broker_id: int) -> list[VersionedRecord]:
        """It is fenced, or shutting down: it leaves every ISR."""
        return self._update(self._topics.in_isr[broker_id], gone=broker_id)

    def partly_without_broker(self, broker_id: int) -> list[VersionedRecord]:
        """It is to be fenced and is in more ISRs than one decision should change: it leaves some, those first that it
        leads. Nothing when they are few enough to go together with its fencing."""
        topics = self._topics
        if topics.in_isr.count(broker_id) <= PARTITIONS_PER_ROUND_MAX:
            return []
        some = topics.led_by.first(broker_id, PARTITIONS_PER_ROUND_MAX)
        return self._update(some or topics.in_isr.first(broker_id, PARTITIONS_PER_ROUND_MAX), gone=broker_id)

    def without_registration(self, broker_id: int) -> list[VersionedRecord]:
        """It is unregistered: it leaves every ISR. Where it is eligible it stays so, should it ever return."""
        return self.without_broker(broker_id) + self._update(self._topics.in_elr[broker_id], gone=broker_id)

    def without_unclean_broker(self, broker_id: int) -> list[VersionedRecord]:
        """It stopped without a clean shutdown and may have lost records, so it can no longer be trusted to lead."""
        partitions = self._topics.in_isr[broker_id] + self._topics.in_elr[broker_id]
        return self._update(partitions, unclean=broker_id)

    def without_directory(self, broker_id: int, directory: Uuid) -> list[VersionedRecord]:
        """One of its disks has failed: it leaves the ISR of what was there."""
        return self._update(self._topics.in_directory[directory], gone=broker_id)

    def without_replicas(self, broker_id: int, partitions: Iterable[PartitionId]) -> list[VersionedRecord]:
        """Its replicas of these partitions cannot be used."""
        return self._update(partitions, gone=broker_id)

    def with_broker(self, broker_id: int) -> list[VersionedRecord]:
        """It is unfenced: it may lead what has no leader."""
        return self._update(self._topics.led_by[NO_LEADER], come=broker_id)

    def _update(
        self,
        partitions: Iterable[PartitionId],
        *,
        gone: int = NO_LEADER,
        come: int = NO_LEADER,
        unclean: int = NO_LEADER,
    ) -> list[VersionedRecord]:
        def is_alive(broker_id: int) -> bool:
            if broker_id in (gone, unclean):
                return False
            return broker_id == come or self._brokers.is_active(broker_id)

        records = []
        # By topic: a broker may have thousands of partitions, and their topics' settings are the same for each.
        settings: dict[Uuid, tuple[int, bool]] = {}
        for key in partitions:
            topic, partition = self._topics.partition(key)
            known = settings.get(topic.id)
            if known is None:
                allows_unclean = self._configs.allows_unclean_election(topic.name)
                known = settings[topic.id] = (self.effective_min_isr(topic), allows_unclean)
            changer = self.changer(topic, key.partition, is_alive=is_alive, min_isr=known[0])
            if known[1]:
                changer.election = Election.UNCLEAN
            if unclean != NO_LEADER:
                changer.unclean_shutdown_replicas = (unclean,)
            changer.isr = without(partition.isr, gone, unclean)
            record = changer.build()
            if record is not None:
                records.append(record)
        return records
