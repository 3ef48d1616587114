"""The partitions of this node: made, led, configured and removed as the metadata says.

Promises: the first metadata opens the logs, and those that the cluster no longer knows are set aside; every later
change acts before `on_metadata` returns: settings are the new ones, leaders lead, deleted topics are gone. Only where
there are many new partitions their logs are begun one after the other, with requests served in between: each waits for
the device several times, and until it is there its partition is answered as one that another broker leads. A log
directory that fails takes its own partitions out of service and no others.
Called by the metadata loader as a publisher, by the handlers to find partitions, and by `log_driver` on schedule.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from ottla.errors import (
    InconsistentTopicId,
    KafkaStorageError,
    NotLeaderOrFollower,
    OperationNotAttempted,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.metadata import (
    BROKER,
    LOST,
    MIGRATING,
    NO_LEADER,
    TOPIC,
    UNASSIGNED,
    BrokerImage,
    Delta,
    Image,
    PartitionImage,
    TopicImage,
)
from ottla.replica.leadership import IsrChange, Leadership
from ottla.replica.log_loading import load_logs
from ottla.replica.partition import NO_EPOCH, Partition
from ottla.replica.producer_ids import ProducerIds
from ottla.replica.stats import IsrStats, TopicStats
from ottla.replica.takeover import Takeover
from ottla.replica.topic_configs import TopicConfigs
from ottla.replica.waiters import Waiters
from ottla.storage import Log, LogDir, LogManager, ProducerStateConfig
from ottla.types import TopicPartition, Uuid
from ottla.world import NodeWorld

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.replica.fetcher_manager import FetcherManager
    from ottla.replica.isr_changes import IsrChanges

log = logging.getLogger("ottla.state_change")

BEGUN_AT_ONCE_MAX = 8
"""How many new logs one piece of metadata may begin before requests have their turn."""


class Watcher(Protocol):
    """Whoever acts when this node begins or ceases to lead a topic's partitions: a coordinator."""

    def on_elected(self, index: int, leader_epoch: int) -> None:
        """This node leads the partition in that epoch, and its log is there. It may be told more than once."""
        ...

    def on_resigned(self, index: int) -> None:
        """This node does not lead the partition, or cannot serve it."""
        ...


Assigned = Callable[[Uuid, int, Uuid], None]
"""Told when a replica is in another directory than the metadata says: topic id, partition, directory id."""


class ReplicaManager:
    """See the module. `directory_ids` are the ids of the log directories by path (`meta.properties`)."""

    def __init__(
        self,
        world: NodeWorld,
        logs: LogManager,
        node_id: int,
        config: BrokerConfig,
        *,
        topic_configs: TopicConfigs | None = None,
        directory_ids: Mapping[str, Uuid] | None = None,
        on_assigned: Assigned | None = None,
        on_directory_failed: Callable[[LogDir], None] | None = None,
        on_cordoned: Callable[[], None] | None = None,
    ) -> None:
        self.world = world
        self.logs = logs
        self.node_id = node_id
        self.config = config
        self.topic_configs = topic_configs or TopicConfigs(config, node_id)
        self.directory_ids = {path.rstrip("/") or "/": uuid for path, uuid in (directory_ids or {}).items()}
        self.on_assigned = on_assigned
        self.on_directory_failed = on_directory_failed
        self.on_cordoned = on_cordoned
        self.isr_changes: IsrChanges | None = None
        """The way to the controller for changes of the ISR; without it, as without followers, nothing changes."""
        self.fetchers: FetcherManager | None = None
        """Who copies what other brokers lead; None while they lead nothing that this one has."""
        self.make_fetchers: Callable[[], FetcherManager] | None = None
        """Set before the first metadata comes; without it nothing is copied."""
        self.isr_stats = IsrStats()
        self.waiters = Waiters(world.tasks)
        self.takeover = Takeover(self.waiters, world.clock)
        self.producer_ids = ProducerIds()
        self.image: Image | None = None
        self.by_name: dict[str, dict[int, Partition]] = {}
        """The partitions of this node by topic and index."""
        self.by_id: dict[Uuid, dict[int, Partition]] = {}
        """The same tables by topic id."""
        self.checkpoint_count = 0
        """Grows when a deletion or a truncation has written checkpoints, which an older copy must not replace."""
        self._is_starting = False
        self._opened_with: Image | None = None
        """The metadata that the logs were opened with, if that was before the first was told."""
        self._withheld: set[tuple[Uuid, int]] = set()
        """Partitions from before this start whose log is in no directory that works: an empty one in its place would
        lose what it has, and be a second one once the directory is back."""
        self._deleted_in: list[LogDir] = []
        """Where logs were taken out of service since the metadata began to change."""
        self.cordoned: set[str] = set()
        """Directories that get no new replicas (`cordoned.log.dirs`)."""
        self._stats: dict[str, TopicStats] = {}
        self._past_stats = TopicStats()
        self._failed: set[str] = set()
        self._to_begin: dict[tuple[Uuid, int], None] = {}
        """Partitions whose logs are still to be begun."""
        self._watchers: dict[str, Watcher] = {}

    @classmethod
    def create(
        cls,
        world: NodeWorld,
        config: BrokerConfig,
        node_id: int,
        *,
        directory_ids: Mapping[str, Uuid] | None = None,
        on_assigned: Assigned | None = None,
        on_directory_failed: Callable[[LogDir], None] | None = None,
        on_cordoned: Callable[[], None] | None = None,
    ) -> ReplicaManager:
        """A manager with a log manager of its own over the log directories of `config`."""
        topic_configs = TopicConfigs(config, node_id)
        logs = LogManager(
            world,
            config.log_dir_list,
            config_of=topic_configs.of,
            producer_config=ProducerStateConfig(
                transaction_partition_verification_enable=config.transaction_partition_verification_enable,
                producer_id_expiration_ms=config.producer_id_expiration_ms,
                transaction_max_timeout_ms=config.transaction_max_timeout_ms,
            ),
            cleaner_config=config.cleaner_config(),
        )
        return cls(
            world,
            logs,
            node_id,
            config,
            topic_configs=topic_configs,
            directory_ids=directory_ids,
            on_assigned=on_assigned,
            on_directory_failed=on_directory_failed,
            on_cordoned=on_cordoned,
        )

    # Finding

    def partitions(self) -> Iterator[Partition]:
        for table in self.by_name.values():
            yield from table.values()

    def partition_by_name(self, topic: str, index: int, *, current_leader_epoch: int = NO_EPOCH) -> Partition:
        """The partition, or the error that tells a client why it is not here."""
        partition = self.by_name.get(topic, {}).get(index)
        if partition is None:
            raise self.why_not_here(topic, index)
        if not partition.is_serving:
            raise KafkaStorageError(f"Partition {partition.name} is in an offline log directory")
        partition.check_epoch(current_leader_epoch)
        return partition

    def partition_by_id(self, topic_id: Uuid, index: int, *, current_leader_epoch: int = NO_EPOCH) -> Partition:
        """The partition of a topic id; `UnknownTopicId` when no topic has it."""
        topic = None if self.image is None else self.image.topics.by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId(f"This server hosts no topic with the ID {topic_id}.")
        return self.partition_by_name(topic.name, index, current_leader_epoch=current_leader_epoch)

    def why_not_here(self, topic: str, index: int) -> NotLeaderOrFollower | UnknownTopicOrPartition:
        """A partition that exists is led elsewhere, and metadata tells where; one that does not is unknown."""
        if self.exists(topic, index):
            return NotLeaderOrFollower(f"This broker has no replica of partition {topic}-{index}.")
        return UnknownTopicOrPartition(f"This server hosts no partition {topic}-{index}.")

    def exists(self, topic: str, index: int) -> bool:
        """Whether the cluster knows the partition, wherever it is."""
        image = self.image
        found = None if image is None else image.topics.by_name.get(topic)
        return found is not None and index in found.partitions

    def log_of(self, partition: TopicPartition) -> Log | None:
        return self.logs.logs.get(partition)

    def stats_of(self, topic: str) -> TopicStats:
        stats = self._stats.get(topic)
        if stats is None:
            stats = self._stats[topic] = TopicStats()
        return stats

    def topic_stats(self) -> Mapping[str, TopicStats]:
        """The counters of each topic that has a partition here."""
        return self._stats

    def all_stats(self) -> TopicStats:
        """The counters of all topics together, deleted ones included."""
        total = TopicStats()
        total.add(self._past_stats)
        for stats in self._stats.values():
            total.add(stats)
        return total

    def watch(self, topic: str, watcher: Watcher) -> None:
        """Tell `watcher` who leads the partitions of `topic`, from now on."""
        assert topic not in self._watchers, f"{topic} is watched already"
        self._watchers[topic] = watcher
        for partition in self.by_name.get(topic, {}).values():
            self._tell(partition)

    def _tell(self, partition: Partition) -> None:
        watcher = self._watchers.get(partition.topic)
        if watcher is None:
            return
        if partition.is_leader and partition.is_serving:
            watcher.on_elected(partition.index, partition.leader_epoch)
        else:
            watcher.on_resigned(partition.index)

    def broker(self, node_id: int) -> BrokerImage | None:
        """What the metadata knows of a broker."""
        return None if self.image is None else self.image.brokers.get(node_id)

    def has_restarted_since(self, node_id: int, broker_epoch: int) -> bool:
        """Whether a broker has registered again since it was given that epoch: what it said with it is void."""
        return Leadership.is_from_before(broker_epoch, self.broker(node_id))

    # Replication

    def check_lag(self, partition: Partition) -> None:
        """Take followers of a partition out of its ISR that have not caught up for too long."""
        if partition.is_serving:
            partition.check_lag()

    def _alter(self, partition: Partition, change: IsrChange) -> None:
        if self.isr_changes is None:
            partition.on_isr_outcome(change, OperationNotAttempted)
            return
        self.isr_changes.submit(
            partition.topic_id, partition.index, change, lambda outcome: partition.on_isr_outcome(change, outcome)
        )

    def truncate_to(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Cut logs that follow others; durable, with their recovery points, when it returns."""
        self.checkpoint_count += 1
        self.logs.truncate_to(offsets)

    def truncate_fully_and_start_at(self, partition: TopicPartition, offset: int) -> None:
        """Empty a log that follows another, and let it begin at `offset`."""
        self.checkpoint_count += 1
        self.logs.truncate_fully_and_start_at(partition, offset)

    def on_fetched(self, partition: TopicPartition, size: int) -> None:
        """A fetcher has appended to a log that follows another, or moved its high watermark."""
        found = self.by_name.get(partition.topic, {}).get(partition.partition)
        if found is not None:
            found.stats.replication_bytes_in += size
            found.on_fetched()

    def _replicate(self, partition: Partition) -> None:
        """Let the partition's log be copied from its leader, if it has one elsewhere."""
        is_copy = partition.is_serving and not partition.is_leader and partition.leader_id != NO_LEADER
        if is_copy and self.fetchers is None and self.make_fetchers is not None:
            self.fetchers = self.make_fetchers()
        if self.fetchers is None:
            return
        if is_copy:
            self.fetchers.follow(
                partition.name,
                partition.topic_id,
                leader_id=partition.leader_id,
                leader_epoch=partition.leader_epoch,
            )
        else:
            self.fetchers.unfollow(partition.name, partition.topic_id)

    # Metadata

    async def open_logs(self, image: Image) -> None:
        """Open the logs off the loop, with the settings of `image`, before the first metadata takes them over."""
        assert self.image is None, "the first metadata opens what is not open yet"
        self._configure(image)
        self._opened_with = image
        await load_logs(
            self.world.tasks,
            self.logs.begin_loading(),
            threads_per_directory=self.topic_configs.broker.num_recovery_threads_per_data_dir,
        )

    def on_metadata(self, delta: Delta, image: Image) -> None:
        """Make this node's partitions what `image` says."""
        is_first = self._is_starting = self.image is None
        self.image = image
        # First what goes: a topic made anew has the name of the old one, and the old one's settings end with it.
        for topic in delta.deleted_topics.values():
            self._delete_topic(topic)
        if is_first or any(kind in (TOPIC, BROKER) for kind, _ in delta.changed_configs):
            has_new_defaults = self._configure(image)
            if is_first:
                self.logs.start(is_stray=lambda one: self._is_stray(image, one))
                self.check_directories()
                self._apply_missed_configs(image, for_all=has_new_defaults)
            else:
                self._apply_configs(delta, for_all=has_new_defaults)
            if has_new_defaults and self.logs.cleaner is not None:
                self.logs.cleaner.config = self.topic_configs.broker.cleaner_config()
        if is_first:
            for topic in image.topics.by_id.values():
                self._apply_topic(topic, dict(topic.partitions))
        else:
            room = BEGUN_AT_ONCE_MAX
            for change in delta.changed_topics.values():
                changed = {index: one.new for index, one in change.changed_partitions.items()}
                new = self._to_be_begun(change.new, changed)
                self._begin_later(change.new, changed, new[room:])
                room = max(0, room - len(new))
                self._apply_topic(change.new, changed)
            if any(broker.new is None or not broker.new.is_active for broker in delta.changed_brokers.values()):
                # A high watermark may wait for a follower there that was about to join the ISR.
                for partition in self.partitions():
                    self.check_lag(partition)
        if self._deleted_in:
            # Once for all: a topic of a thousand partitions would wait for the device thousands of times.
            self.logs.confirm_deletions(self._deleted_in)
            self._deleted_in.clear()
            self.check_directories()

    def _configure(self, image: Image) -> bool:
        """Take over the settings of `image`; whether the defaults of all topics changed."""
        has_new_defaults = self.topic_configs.update(image)
        if self.image is None or self._is_starting or has_new_defaults:
            self._cordon()
            self._configure_producers()
            if self.fetchers is not None:
                self.fetchers.resize(self.topic_configs.broker.num_replica_fetchers)
        return has_new_defaults

    def _apply_missed_configs(self, image: Image, *, for_all: bool) -> None:
        """Settings that were changed while the logs were being opened."""
        before, self._opened_with = self._opened_with, None
        if before is None or before is image:
            return
        for topic in dict.fromkeys(one.topic for one in self.logs.logs):
            if for_all or before.config_of(TOPIC, topic) != image.config_of(TOPIC, topic):
                self.logs.update_topic_config(topic)

    def _cordon(self) -> None:
        paths = [one.path for one in self.logs.directories]
        wanted = self.topic_configs.broker.cordoned_log_dirs
        cordoned = set(paths) if "*" in wanted else {path for path in paths if path in wanted}
        has_changed, self.cordoned = cordoned != self.cordoned, cordoned
        self.logs.cordon(self.cordoned)
        if has_changed and self.on_cordoned is not None:
            self.on_cordoned()

    def _configure_producers(self) -> None:
        """Settings of producers and transactions that can be changed while the broker runs."""
        settings, producers = self.topic_configs.broker, self.logs.producer_config
        producers.producer_id_expiration_ms = settings.producer_id_expiration_ms
        producers.transaction_partition_verification_enable = settings.transaction_partition_verification_enable

    def _is_stray(self, image: Image, opened: Log) -> bool:
        """Whether the cluster has no replica of that log on this node: deleted or moved while the node was away."""
        topic = image.topics.by_name.get(opened.partition.topic)
        if opened.topic_id is not None:
            topic = image.topics.by_id.get(opened.topic_id)
        partition = None if topic is None else topic.partitions.get(opened.partition.partition)
        return partition is None or self.node_id not in partition.replicas

    def _apply_configs(self, delta: Delta, *, for_all: bool) -> None:
        if for_all:
            for topic in self.by_name:
                self.logs.update_topic_config(topic)
            return
        for kind, name in delta.changed_configs:
            if kind == TOPIC and name in self.by_name:
                self.logs.update_topic_config(name)

    def _to_be_begun(self, topic: TopicImage, changed: Mapping[int, PartitionImage]) -> list[int]:
        """The partitions that have a replica here and no log yet."""
        logs = self.logs.logs
        return [
            index
            for index, one in changed.items()
            if self.node_id in one.replicas and TopicPartition(topic.name, index) not in logs
        ]

    def _begin_later(self, topic: TopicImage, changed: dict[int, PartitionImage], later: list[int]) -> None:
        if later and not self._to_begin:
            self.world.tasks.soon(self._begin_next)
        for index in later:
            self._to_begin[topic.id, index] = None
            del changed[index]

    def _begin_next(self) -> None:
        """Begin one of the logs that wait for it, as the metadata is by now, and let others run."""
        topic_id, index = next(iter(self._to_begin))
        del self._to_begin[topic_id, index]
        if self._to_begin:
            self.world.tasks.soon(self._begin_next)
        topic = None if self.image is None else self.image.topics.by_id.get(topic_id)
        if topic is not None and index in topic.partitions:
            self._apply_topic(topic, {index: topic.partitions[index]})

    def _apply_topic(self, topic: TopicImage, changed: Mapping[int, PartitionImage]) -> None:
        for index, partition in changed.items():
            if self.node_id in partition.replicas:
                self._apply_partition(topic, index, partition)
            elif index in self.by_name.get(topic.name, ()):
                self._remove(self.by_name[topic.name][index])

    def _apply_partition(self, topic: TopicImage, index: int, image: PartitionImage) -> None:
        table = self.by_name.get(topic.name)
        if table is None or self.by_id.get(topic.id) is not table:
            table = self.by_name[topic.name] = self.by_id[topic.id] = {}
        partition = table.get(index)
        if partition is None:
            partition = table[index] = Partition(
                topic.name,
                topic.id,
                index,
                leadership=Leadership(self.node_id, self.broker, lag_max_ms=self.config.replica_lag_time_max_ms),
                clock=self.world.clock,
                waiters=self.waiters,
                alter=self._alter,
                stats=self.stats_of(topic.name),
                isr_stats=self.isr_stats,
            )
        elif not partition.is_serving:
            log.warning(
                "[Broker id=%d] Unable to bring up %s with topic id %s because it resides in an offline log directory.",
                self.node_id, partition.name, topic.id,
            )  # fmt: skip
            return
        try:
            opened = self._open(partition, image.directory_of(self.node_id))
            if image.leader == self.node_id:
                is_new = image.leader_epoch > partition.leader_epoch
                if partition.lead(image, opened) and is_new:
                    self.takeover.on_leading(partition)
                    log.info(
                        "[Broker id=%d] Leader %s with topic id %s starts at leader epoch %d from offset %d with "
                        "partition epoch %d, high watermark %d, ISR %s.",
                        self.node_id, partition.name, topic.id, image.leader_epoch, opened.log_end_offset,
                        image.partition_epoch, opened.high_watermark, list(image.isr),
                    )  # fmt: skip
            elif partition.follow(image, opened):
                log.info(
                    "[Broker id=%d] Follower %s starts at leader epoch %d from offset %d with high watermark %d. "
                    "Current leader is %d.",
                    self.node_id, partition.name, image.leader_epoch, opened.log_end_offset, opened.high_watermark,
                    image.leader,
                )  # fmt: skip
        except KafkaStorageError as error:
            log.error("[Broker id=%d] Skipped the state change of %s: %s", self.node_id, partition.name, error)
            partition.stop(KafkaStorageError)
            self.check_directories()
        self._replicate(partition)
        if self._watchers:
            self._tell(partition)

    def _open(self, partition: Partition, directory_id: Uuid) -> Log:
        """The partition's log, begun now if it is not there, in the directory that the metadata names."""
        found = self.logs.get(partition.name)
        if found is None:
            directory = None
            for path, known in self.directory_ids.items():
                if known == directory_id and path not in self._failed:
                    directory = path
            if self._is_starting and len(self.logs.live_directories) < len(self.logs.directories):
                self._withheld.add((partition.topic_id, partition.index))
            if (partition.topic_id, partition.index) in self._withheld:
                raise KafkaStorageError(f"The log of {partition.name} may be in a directory that is offline")
            is_chosen = directory_id not in (UNASSIGNED, MIGRATING)
            if directory is None and is_chosen and (self._failed or directory_id == LOST):
                # The log may be on the device that failed, and an empty one in its place would lose what it has.
                raise KafkaStorageError(f"The directory {directory_id} of {partition.name} is offline")
            found = self.logs.create(partition.name, topic_id=partition.topic_id, directory=directory)
        elif found.topic_id is None:
            found.assign_topic_id(partition.topic_id)
        elif found.topic_id != partition.topic_id:
            raise InconsistentTopicId(
                f"The log of {partition.name} has topic ID {found.topic_id}, not {partition.topic_id}"
            )
        actual = self.directory_ids.get(found.log_dir.path)
        if actual is not None and actual != directory_id and self.on_assigned is not None:
            self.on_assigned(partition.topic_id, partition.index, actual)
        return found

    def _delete_topic(self, topic: TopicImage) -> None:
        table = self.by_id.get(topic.id)
        for partition in list((table or {}).values()):
            self._remove(partition)
        stats = self._stats.get(topic.name)
        if stats is not None and topic.name not in self.by_name:
            self._past_stats.add(self._stats.pop(topic.name))

    def _remove(self, partition: Partition) -> None:
        """The replica is not this node's any more: it goes out of service now, and its files soon."""
        table = self.by_id[partition.topic_id]
        del table[partition.index]
        if not table:
            del self.by_id[partition.topic_id]
            if self.by_name.get(partition.topic) is table:
                del self.by_name[partition.topic]
        is_offline = not partition.is_serving
        partition.stop(UnknownTopicOrPartition)
        self._replicate(partition)
        self._tell(partition)
        if is_offline:
            return  # what cannot be reached cannot be deleted; the next start finds it to be stray
        self.checkpoint_count += 1
        try:
            taken = self.logs.take_out(partition.name)
            if taken is not None:
                self._deleted_in.append(taken)
        except KafkaStorageError as error:
            log.error("[Broker id=%d] Unable to delete replica %s: %s", self.node_id, partition.name, error)
            self.check_directories()

    # Directories

    def check_directories(self) -> list[LogDir]:
        """Take partitions of directories that have failed out of service; returns the newly failed ones."""
        failed = [one for one in self.logs.directories if one.is_offline and one.path not in self._failed]
        for directory in failed:
            self._failed.add(directory.path)
            stopped = [
                one
                for one in self.partitions()
                if one.is_serving and one.log is not None and one.log.log_dir is directory
            ]
            for partition in stopped:
                partition.stop(KafkaStorageError)
                self._replicate(partition)
                self._tell(partition)
            log.error(
                "[Broker id=%d] Log directory %s is offline; %d partitions are out of service",
                self.node_id, directory.path, len(stopped),
            )  # fmt: skip
        if failed:
            self.logs.handle_failures()
            for directory in failed:
                if self.on_directory_failed is not None:
                    self.on_directory_failed(directory)
        return failed
