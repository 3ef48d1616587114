"""Plays the transcripts of the controller: commands of a line, answers and the records that were appended.

Ids are random, so they are shown as what they are of: `$orders` is a topic's, `$dir1` a broker's log directory,
`$incarnation1` a broker's life, `$id1`, `$id2` whatever else appears.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from typing import Any

from ottla.errors import KafkaError, error_class
from ottla.metadata import SUPPORTED_FEATURES, TOPIC, random_uuid
from ottla.types import Uuid
from ottla.wire.json_form import to_json
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.alter_configs import (
    AlterableConfig as ReplacedConfig,
)
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
)
from ottla.wire.messages.alter_configs import (
    AlterConfigsResource as ReplacedResource,
)
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.wire.metadata import VersionedRecord
from tests.unit.metadata.harness import Cluster

_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
_RESOURCES = {"topic": TOPIC, "broker": 4, "logger": 8, "metrics": 16, "group": 32, "unknown": 99}


class Player:
    """One cluster, made by `make`, driven by the lines of one transcript."""

    def __init__(self, make: Callable[..., Cluster] = Cluster) -> None:
        self._make = make
        self.cluster: Cluster | None = None
        self.names: dict[str, str] = {}
        self.incarnations: dict[str, Uuid] = {}

    def close(self) -> None:
        if self.cluster is not None:
            self.cluster.close()

    def execute(self, line: str) -> list[str]:
        command, *words = shlex.split(line)
        if command == "cluster":
            self.close()
            self.names.clear()
            overrides: dict[str, Any] = {name.replace(".", "_"): value for name, value in _options(words).items()}
            self.cluster = self._make(**overrides)
            return self._shown(self.cluster.fresh_records(0))
        cluster = self.cluster
        assert cluster is not None, "a transcript begins with `cluster`"
        before = len(cluster.quorum.records)
        handler: Callable[[list[str]], list[str]] = getattr(self, "do_" + command.replace("-", "_"))
        try:
            printed = handler(words)
        except KafkaError as error:
            printed = [f"{error.name}: {error.message}"]
        self._learn()
        return [self._with_names(text) for text in printed] + self._shown(cluster.fresh_records(before))

    # Names for ids

    def _learn(self) -> None:
        assert self.cluster is not None
        for topic in self.cluster.loader.image.topics.by_name.values():
            self.names.setdefault(str(topic.id), f"${topic.name}")
        for broker_id, directory in self.cluster.directories.items():
            self.names.setdefault(str(directory), f"$dir{broker_id}")
        for broker_id, broker in self.cluster.loader.image.brokers.items():
            taken = [name for name in self.names.values() if name.startswith(f"$incarnation{broker_id}")]
            self.names.setdefault(str(broker.incarnation_id), f"$incarnation{broker_id}" + "'" * len(taken))

    def _with_names(self, text: str) -> str:
        def named(found: re.Match[str]) -> str:
            if found[0] not in self.names and not re.search(r"[A-Z].*[0-9]|[0-9].*[A-Z]", found[0]):
                return found[0]
            count = sum(name.startswith("$id") for name in self.names.values())
            return self.names.setdefault(found[0], f"$id{count + 1}")

        return _UUID.sub(named, text)

    def _shown(self, records: list[VersionedRecord]) -> list[str]:
        self._learn()
        shown = []
        for record, version in records:
            form = to_json(record, version)
            if "features" in form:
                form["features"] = f"{len(form['features'])} of them"
            data = json.dumps(form, separators=(",", ":"))
            shown.append(f"+ {record.schema.name.removesuffix('Record')}.{version} {self._with_names(data)}")
        return shown

    def _id(self, name: str) -> Uuid:
        for text, known in self.names.items():
            if known == name:
                return Uuid.parse(text)
        return random_uuid(self._cluster.world)

    @property
    def _cluster(self) -> Cluster:
        assert self.cluster is not None
        return self.cluster

    # Brokers

    def do_broker(self, words: list[str]) -> list[str]:
        """broker ID [rack=R]: register and unfence."""
        options = _options(words[1:])
        self._cluster.add_broker(int(words[0]), rack=options.get("rack"))
        return []

    def do_register(self, words: list[str]) -> list[str]:
        """register ID [incarnation=NAME] [previous=EPOCH|last] [cluster=ID] [feature=NAME:LOW:HIGH] [dirs=N]"""
        options = _options(words[1:])
        cluster, broker_id = self._cluster, int(words[0])
        incarnation = options.get("incarnation", "new")
        if incarnation == "same":
            life = cluster.loader.image.brokers[broker_id].incarnation_id
        else:
            life = random_uuid(cluster.world)
        features: dict[str, tuple[int, int]] | None = None
        if "feature" in options:
            name, low, high = options["feature"].split(":")
            features = {key: (levels.min, levels.max) for key, levels in SUPPORTED_FEATURES.items() if key != name}
            if high != "none":
                features[name] = (int(low), int(high))
        previous = options.get("previous", "-1")
        log_dirs = None
        if "dirs" in options:
            log_dirs = [self._id(name) for name in options["dirs"].split(",") if name]
        if "reserved" in options:
            log_dirs = [Uuid(16)]
        response = cluster.register(
            broker_id,
            rack=options.get("rack"),
            incarnation_id=life,
            previous_epoch=cluster.epochs[broker_id] if previous == "last" else int(previous),
            features=features,
            log_dirs=log_dirs,
            cluster_id=options.get("cluster", "WdKyKKmQSAiEX4-qKEX5tw"),
        )
        return [f"epoch {response.broker_epoch}"]

    def do_heartbeat(self, words: list[str]) -> list[str]:
        """heartbeat ID [offset=N] [epoch=N] [fence] [shutdown] [offline=DIR] [cordoned=DIR]"""
        options = _options(words[1:])
        response = self._cluster.heartbeat(
            int(words[0]),
            offset=int(options["offset"]) if "offset" in options else None,
            epoch=int(options["epoch"]) if "epoch" in options else None,
            want_fence="fence" in options,
            want_shut_down="shutdown" in options,
            offline=[self._id(options["offline"])] if "offline" in options else None,
            cordoned=[self._id(name) for name in options["cordoned"].split(",") if name]
            if "cordoned" in options
            else None,
        )
        said = ["caught up" if response.is_caught_up else "behind", "fenced" if response.is_fenced else "unfenced"]
        return [", ".join([*said, "may stop"] if response.should_shut_down else said)]

    def do_unregister(self, words: list[str]) -> list[str]:
        self._cluster.ask(UnregisterBrokerRequest(broker_id=int(words[0])), UnregisterBrokerResponse)
        return []

    def do_pass(self, words: list[str]) -> list[str]:
        """pass MILLISECONDS [ID ...]: time passes; those brokers send heartbeats meanwhile."""
        left, brokers = int(words[0]), [int(word) for word in words[1:]]
        while left > 0:
            step = min(left, 1000)
            self._cluster.pass_ms(step)
            left -= step
            for broker_id in brokers:
                self._cluster.heartbeat(broker_id)
        return []

    def do_disconnect(self, words: list[str]) -> list[str]:
        """disconnect ID: the connection closes that the broker's heartbeats came over."""
        self._cluster.disconnect(int(words[0]))
        self._cluster.pass_ms(1)
        return []

    def do_refuse(self, words: list[str]) -> list[str]:
        """refuse ID [MILLISECONDS]: the broker's host refuses connections from now on, after so long."""
        self._cluster.hosts.refusing.add(int(words[0]))
        self._cluster.hosts.answer_ms = int(words[1]) if len(words) > 1 else 0
        return []

    def do_accept(self, words: list[str]) -> list[str]:
        """accept ID: the broker's host takes connections again."""
        self._cluster.hosts.refusing.discard(int(words[0]))
        return []

    def do_asked(self, words: list[str]) -> list[str]:
        """asked: which brokers' hosts were asked since the last time, and how long after the first of them."""
        asked = self._cluster.hosts.asked
        told = [f"broker {broker_id} after {when_ms - asked[0][0]} ms" for when_ms, broker_id in asked]
        asked.clear()
        return told or ["none"]

    def do_producer_ids(self, words: list[str]) -> list[str]:
        epoch = int(words[1]) if len(words) > 1 else self._cluster.epochs[int(words[0])]
        request = AllocateProducerIdsRequest(broker_id=int(words[0]), broker_epoch=epoch)
        response = self._cluster.ask(request, AllocateProducerIdsResponse)
        return [f"{response.producer_id_start} and {response.producer_id_len - 1} more"]

    # Topics

    def do_create(self, words: list[str]) -> list[str]:
        """create NAME [partitions=N] [replicas=N] [assign=1,2/2,3] [validate] [again] [setting=value ...]"""
        name, options = words[0], _options(words[1:])
        topic = CreatableTopic(
            name=name,
            num_partitions=int(options.pop("partitions", "-1")),
            replication_factor=int(options.pop("replicas", "-1")),
        )
        for index, replicas in enumerate(options.pop("assign", "").split("/")):
            if replicas:
                ids = [int(replica) for replica in replicas.split(",")]
                topic.assignments.append(CreatableReplicaAssignment(index, ids))
        first = options.pop("first", None)
        if first is not None:
            for assignment in topic.assignments:
                assignment.partition_index += int(first)
        request = CreateTopicsRequest(topics=[topic], validate_only=options.pop("validate", None) is not None)
        if options.pop("again", None) is not None:
            request.topics.append(topic)
        topic.configs = [
            CreatableTopicConfig(key, None if value == "null" else value) for key, value in options.items()
        ]
        response = self._cluster.ask(request, CreateTopicsResponse)
        return [
            _outcome(result.error_code, result.error_message)
            or f"{result.num_partitions} partitions, {result.replication_factor} replicas"
            for result in response.topics
        ]

    def do_delete(self, words: list[str]) -> list[str]:
        """delete NAME or $NAME ..."""
        request = DeleteTopicsRequest(timeout_ms=10_000)
        for word in words:
            if word == "nothing":
                request.topics.append(DeleteTopicState())
            elif word.startswith("$"):
                request.topics.append(DeleteTopicState(topic_id=self._id(word)))
            elif ":" in word:
                name = word.removesuffix(":both")
                request.topics.append(DeleteTopicState(name, self._id(f"${name}")))
            else:
                request.topics.append(DeleteTopicState(name=word))
        response = self._cluster.ask(request, DeleteTopicsResponse)
        return [
            f"{result.name} {result.topic_id}: {_outcome(result.error_code, result.error_message) or 'deleted'}"
            for result in response.responses
        ]

    def do_grow(self, words: list[str]) -> list[str]:
        """grow NAME COUNT [assign=1,2/2,3] [validate]"""
        options = _options(words[2:])
        topic = CreatePartitionsTopic(name=words[0], count=int(words[1]), assignments=None)
        if "assign" in options:
            topic.assignments = [
                CreatePartitionsAssignment([int(replica) for replica in replicas.split(",") if replica])
                for replicas in options["assign"].split("/")
            ]
        topics = [topic, topic] if "again" in options else [topic]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=10_000, validate_only="validate" in options)
        response = self._cluster.ask(request, CreatePartitionsResponse)
        return [_outcome(result.error_code, result.error_message) or "grown" for result in response.results]

    def do_show(self, words: list[str]) -> list[str]:
        """show NAME: the partitions as everybody sees them."""
        topic = self._cluster.loader.image.topics.by_name.get(words[0])
        if topic is None:
            return ["no such topic"]
        shown = []
        for index, partition in sorted(topic.partitions.items()):
            text = (
                f"{index}: leader {partition.leader} epoch {partition.leader_epoch}.{partition.partition_epoch} "
                f"replicas {list(partition.replicas)} isr {list(partition.isr)}"
            )
            for name in ("adding", "removing", "elr", "last_known_elr"):
                if getattr(partition, name):
                    text += f" {name} {list(getattr(partition, name))}"
            if partition.leader_recovery_state:
                text += " recovering"
            shown.append(text)
        return shown

    # Settings and features

    def do_alter(self, words: list[str]) -> list[str]:
        """alter TYPE NAME [validate] [again] set:NAME=VALUE | delete:NAME | append:NAME=VALUE | subtract:NAME=VALUE"""
        operations = {"set": 0, "delete": 1, "append": 2, "subtract": 3, "odd": 9}
        resource = AlterConfigsResource(_RESOURCES[words[0]], words[1])
        for word in words[2:]:
            if ":" in word:
                operation, _, rest = word.partition(":")
                name, _, value = rest.partition("=")
                text = (
                    None if operation == "delete" or value == "null" else value * (20_000 if value in ("x", "y") else 1)
                )
                resource.configs.append(AlterableConfig(name, operations[operation], text))
        request = IncrementalAlterConfigsRequest(
            resources=[resource, resource] if "again" in words else [resource], validate_only="validate" in words
        )
        response = self._cluster.ask(request, IncrementalAlterConfigsResponse)
        return [_outcome(result.error_code, result.error_message) or "altered" for result in response.responses]

    def do_replace(self, words: list[str]) -> list[str]:
        """replace TYPE NAME [SETTING=VALUE ...]: AlterConfigs."""
        settings = [ReplacedConfig(name, value) for name, value in _options(words[2:]).items()]
        request = AlterConfigsRequest(resources=[ReplacedResource(_RESOURCES[words[0]], words[1], settings)])
        response = self._cluster.ask(request, AlterConfigsResponse)
        return [_outcome(result.error_code, result.error_message) or "replaced" for result in response.responses]

    def do_settings(self, words: list[str]) -> list[str]:
        found = self._cluster.loader.image.config_of(_RESOURCES[words[0]], words[1])
        return [f"{name}={value}" for name, value in found.items()] or ["none"]

    def do_feature(self, words: list[str]) -> list[str]:
        """feature NAME LEVEL [type=1|2|3] [validate] [version=N]"""
        options = _options(words[2:])
        update = FeatureUpdateKey(
            feature=words[0], max_version_level=int(words[1]), upgrade_type=int(options.get("type", "1"))
        )
        request = UpdateFeaturesRequest(feature_updates=[update], validate_only="validate" in options)
        version = int(options.get("version", "2"))
        response = self._cluster.ask(request, UpdateFeaturesResponse, version=version)
        results = [f"{result.feature}: {result.error_code} {result.error_message}" for result in response.results]
        return [_outcome(response.error_code, response.error_message) or "updated", *results]

    # Leaders and replicas

    def do_elect(self, words: list[str]) -> list[str]:
        """elect preferred|unclean|odd [TOPIC-PARTITION ...]"""
        kind = {"preferred": 0, "unclean": 1, "odd": 7}[words[0]]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=None)
        if words[1:]:
            request.topic_partitions = []
            for word in words[1:]:
                name, _, index = word.rpartition("-")
                request.topic_partitions.append(TopicPartitions(name, [int(index)]))
        response = self._cluster.ask(request, ElectLeadersResponse)
        return [
            f"{topic.topic}-{result.partition_id}: {_outcome(result.error_code, result.error_message) or 'elected'}"
            for topic in response.replica_election_results
            for result in topic.partition_result
        ]

    def do_isr(self, words: list[str]) -> list[str]:
        """isr TOPIC-PARTITION by=ID isr=1,2 [leader_epoch=N] [epoch=N] [broker_epochs=N,N] [recovering]"""
        name, _, index = words[0].rpartition("-")
        options = _options(words[1:])
        cluster, broker_id = self._cluster, int(options["by"])
        topic = cluster.loader.image.topics.by_name.get(name)
        partition = None if topic is None else topic.partitions.get(int(index))
        ids = [int(one) for one in options["isr"].split(",")]
        epochs = [int(one) for one in options["broker_epochs"].split(",")] if "broker_epochs" in options else None
        change = AlterPartitionRequestPartitionData(
            partition_index=int(index),
            leader_epoch=int(options.get("leader_epoch", partition.leader_epoch if partition else 0)),
            new_isr_with_epochs=[
                BrokerState(one, cluster.epochs.get(one, -1) if epochs is None else epochs[at])
                for at, one in enumerate(ids)
            ],
            leader_recovery_state=int("recovering" in options),
            partition_epoch=int(options.get("epoch", partition.partition_epoch if partition else 0)),
        )
        topic_id = random_uuid(cluster.world) if topic is None else topic.id
        request = AlterPartitionRequest(
            broker_id=broker_id,
            broker_epoch=int(options.get("broker_epoch", cluster.epochs[broker_id])),
            topics=[AlterPartitionRequestTopicData(topic_id, [change])],
        )
        response = cluster.ask(request, AlterPartitionResponse)
        return [
            _outcome(result.error_code, None)
            or f"leader {result.leader_id} epoch {result.leader_epoch}.{result.partition_epoch} isr {result.isr}"
            for answered in response.topics
            for result in answered.partitions
        ]

    def do_move(self, words: list[str]) -> list[str]:
        """move TOPIC-PARTITION 1,2|cancel [fixed]: AlterPartitionReassignments."""
        name, _, index = words[0].rpartition("-")
        replicas = None if words[1] == "cancel" else [int(one) for one in words[1].split(",") if one]
        request = AlterPartitionReassignmentsRequest(
            allow_replication_factor_change="fixed" not in words,
            topics=[ReassignableTopic(name, [ReassignablePartition(int(index), replicas)])],
        )
        response = self._cluster.ask(request, AlterPartitionReassignmentsResponse)
        return [
            _outcome(result.error_code, result.error_message) or "moving"
            for topic in response.responses
            for result in topic.partitions
        ]

    def do_moving(self, words: list[str]) -> list[str]:
        response = self._cluster.ask(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse)
        return [
            f"{topic.name}-{one.partition_index}: {one.replicas} adding {one.adding_replicas} "
            f"removing {one.removing_replicas}"
            for topic in response.topics
            for one in topic.partitions
        ] or ["nothing"]

    def do_assign_dir(self, words: list[str]) -> list[str]:
        """assign-dir ID DIRECTORY TOPIC-PARTITION"""
        name, _, index = words[2].rpartition("-")
        partition = AssignReplicasToDirsRequestPartitionData(int(index))
        topic = AssignReplicasToDirsRequestTopicData(self._id(f"${name}"), [partition])
        request = AssignReplicasToDirsRequest(
            broker_id=int(words[0]),
            broker_epoch=self._cluster.epochs[int(words[0])],
            directories=[AssignReplicasToDirsRequestDirectoryData(self._id(words[1]), [topic])],
        )
        response = self._cluster.ask(request, AssignReplicasToDirsResponse)
        return [
            _outcome(result.error_code, None) or "assigned"
            for directory in response.directories
            for answered in directory.topics
            for result in answered.partitions
        ]

    # Leadership

    def do_hold(self, words: list[str]) -> list[str]:
        """hold: what is appended from now on is not committed."""
        self._cluster.quorum.holds_commits = True
        return []

    def do_submit(self, words: list[str]) -> list[str]:
        """submit NAME: ask for a topic, and do not wait for the answer."""
        cluster = self._cluster
        request = CreateTopicsRequest(topics=[CreatableTopic(words[0], 1, 1)])
        cluster.waiting = cluster.world.loop.create_task(cluster.controller.handle(request, version=7))
        cluster.world.loop.run_until(lambda: len(cluster.quorum.batches) > cluster.quorum.committed_count)
        return []

    def do_lose(self, words: list[str]) -> list[str]:
        """lose: another node takes over, which has not seen what is not committed; then this one leads again."""
        cluster = self._cluster
        cluster.controller.on_resign()
        waiting, cluster.waiting = cluster.waiting, None
        told = []
        if waiting is not None:
            cluster.world.loop.run_until(waiting.done)
            error = waiting.exception()
            told = [f"{error.name}: {error.message}"]
        cluster.quorum.drop_uncommitted()
        cluster.quorum.holds_commits = False
        cluster.controller.on_leader(2)
        return told


def _options(words: list[str]) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _outcome(code: int, message: str | None) -> str | None:
    """None when there was no error. A message that is only the class's own sentence is left out."""
    if code == 0:
        return None
    error = error_class(code)
    return error.name if message in (None, error.__doc__) else f"{error.name}: {message}"
