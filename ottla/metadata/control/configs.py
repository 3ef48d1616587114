"""Settings of topics, brokers, groups and client metrics: what is set, and whether a change is allowed.

Promises: a change of one resource is whole or not at all, and is checked as it would stand after the change. Called
for CreateTopics, AlterConfigs and IncrementalAlterConfigs; asked by the other controls for the settings that guide
elections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ottla.errors import BrokerIdNotRegistered, InvalidConfig, InvalidRequest, UnknownTopicOrPartition
from ottla.machine import UndoDict, UndoLog
from ottla.metadata.control.features import FeatureControl
from ottla.metadata.image import BROKER, CLIENT_METRICS, GROUP, TOPIC, ConfigResource
from ottla.metadata.topic_names import check_topic_name
from ottla.wire.metadata import ClearElrRecord, ConfigRecord, VersionedRecord

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
_OPERATIONS = {SET: "SET", DELETE: "DELETE", APPEND: "APPEND", SUBTRACT: "SUBTRACT"}

MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"
CORDONED_LOG_DIRS = "cordoned.log.dirs"

VALUE_LENGTH_MAX = 2**15 - 1

_NONE: Mapping[str, str] = {}


class Alteration(NamedTuple):
    """What is to happen to one setting."""

    name: str
    operation: int
    value: str | None


class TopicSetting(NamedTuple):
    """A setting of a topic as CreateTopics tells it; `source` is Kafka's number."""

    name: str
    value: str | None
    source: int
    is_sensitive: bool


class ConfigRules(Protocol):
    """What the tables of settings know."""

    def validate(self, resource: ConfigResource, settings: Mapping[str, str], existing: Mapping[str, str]) -> None:
        """`InvalidConfig` unless a resource that has the settings `existing` may have exactly these."""
        ...

    def check_broker_changes(self, changed: Mapping[str, str | None]) -> None:
        """`InvalidRequest` where brokers could not do what these values of their settings ask; None takes one back."""
        ...

    def is_list(self, resource_type: int, name: str) -> bool:
        """Whether a setting can be appended to."""
        ...

    def default(self, resource_type: int, name: str) -> str | None:
        """A setting's default, as text."""
        ...

    def static(self, name: str) -> str:
        """What this node's own file says of a broker setting, or its default."""
        ...

    def effective_topic(
        self, overrides: Mapping[str, str], *, node: Mapping[str, str], cluster: Mapping[str, str]
    ) -> Sequence[TopicSetting]:
        """All settings of a topic with these overrides, by name, above these settings of the node and of all nodes."""
        ...


class ConfigControl:
    """The settings that are set."""

    def __init__(self, undo: UndoLog, features: FeatureControl, rules: ConfigRules, *, node_id: int) -> None:
        self._features = features
        self._rules = rules
        self._node = (BROKER, str(node_id))
        self.settings: UndoDict[ConfigResource, Mapping[str, str]] = UndoDict(undo)
        """By resource; the inner tables are replaced, never changed."""
        self.has_topic: Callable[[str], bool] = lambda name: False
        self.has_node: Callable[[int], bool] = lambda node_id: False

    # Replay

    def replay(self, record: ConfigRecord) -> None:
        key = (record.resource_type, record.resource_name)
        settings = dict(self.settings.get(key, {}))
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value
        if settings:
            self.settings[key] = settings
        else:
            self.settings.pop(key, None)

    def forget_topic(self, name: str) -> None:
        self.settings.pop((TOPIC, name), None)

    # What the others ask

    def min_insync_replicas(self, topic: str) -> int:
        return int(self._effective(topic, MIN_INSYNC_REPLICAS))

    def allows_unclean_election(self, topic: str) -> bool:
        return self._effective(topic, UNCLEAN_LEADER_ELECTION).strip().lower() == "true"

    def static_min_insync_replicas(self) -> int:
        return int(self._rules.static(MIN_INSYNC_REPLICAS))

    def _effective(self, topic: str, name: str) -> str:
        """A setting that topics and brokers know by the same name."""
        for key in ((TOPIC, topic), self._node, (BROKER, "")):
            value = self.settings.get(key, {}).get(name)
            if value is not None:
                return value
        return self._rules.static(name)

    def effective_topic(self, overrides: Mapping[str, str]) -> Sequence[TopicSetting]:
        node, cluster = self.settings.get(self._node, _NONE), self.settings.get((BROKER, ""), _NONE)
        return self._rules.effective_topic(overrides, node=node, cluster=cluster)

    # Decisions

    def alter(
        self, resource: ConfigResource, alterations: Iterable[Alteration], *, is_new: bool = False
    ) -> list[VersionedRecord]:
        """Change single settings of a resource. `is_new`: it is being created in the same breath."""
        current = self.settings.get(resource, {})
        changed: dict[str, str | None] = {}
        for alteration in alterations:
            value = self._altered(resource, alteration, current.get(alteration.name))
            if value != current.get(alteration.name) or resource[0] == BROKER:
                changed[alteration.name] = value
        return self._checked(resource, changed, is_new=is_new)

    def replace(self, resource: ConfigResource, settings: Mapping[str, str | None]) -> list[VersionedRecord]:
        """Give a resource these settings and no others."""
        current = self.settings.get(resource, {})
        changed: dict[str, str | None] = {
            name: value for name, value in settings.items() if value != current.get(name) or resource[0] == BROKER
        }
        changed.update({name: None for name in current if name not in settings})
        return self._checked(resource, changed, is_new=False)

    def clear_elr_records(self, records: Iterable[VersionedRecord]) -> list[VersionedRecord]:
        """What must follow these changes of settings: who is eligible was worked out with the old minimum."""
        if not self._features.has_elr:
            return []
        return [
            VersionedRecord(ClearElrRecord(topic_name=record.resource_name if record.resource_type == TOPIC else ""), 0)
            for record, _ in records
            if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS
        ]

    def elr_safety_records(self) -> list[VersionedRecord]:
        """What must hold before eligible leader replicas are used: one `min.insync.replicas` for all brokers."""
        records = []
        if MIN_INSYNC_REPLICAS not in self.settings.get((BROKER, ""), {}):
            records.append(_record((BROKER, ""), MIN_INSYNC_REPLICAS, str(self.static_min_insync_replicas())))
        for resource, settings in self.settings.items():
            if resource[0] == BROKER and resource[1] and MIN_INSYNC_REPLICAS in settings:
                records.append(_record(resource, MIN_INSYNC_REPLICAS, None))
        return records

    def _altered(self, resource: ConfigResource, alteration: Alteration, current: str | None) -> str | None:
        name, operation, value = alteration
        if operation not in _OPERATIONS:
            raise InvalidRequest(f"Unknown operations type {operation}")
        if operation == DELETE:
            return None
        if value is None:
            raise InvalidRequest(f"Null value not supported for : {name}")
        if operation == SET:
            return value
        if not self._rules.is_list(resource[0], name):
            raise InvalidConfig(f"Can't {_OPERATIONS[operation]} to key {name} because its type is not LIST.")
        text = self._rules.default(resource[0], name) if current is None else current
        items = [item for item in (text or "").split(",") if item]
        for item in value.split(","):
            if operation == APPEND and item not in items:
                items.append(item)
            elif operation == SUBTRACT and item in items:
                items.remove(item)
        return ",".join(items)

    def _checked(
        self, resource: ConfigResource, changed: Mapping[str, str | None], *, is_new: bool
    ) -> list[VersionedRecord]:
        existing = self.settings.get(resource, {})
        after = dict(existing)
        for name, value in changed.items():
            self._check_change(resource, name, value)
            if value is None:
                after.pop(name, None)
            else:
                after[name] = value
        self._check_name(resource)
        if resource[0] == BROKER:
            self._rules.check_broker_changes(changed)
        self._rules.validate(resource, after, existing)
        if not is_new:
            self._check_exists(resource)
        return [_record(resource, name, value) for name, value in changed.items()]

    def _check_change(self, resource: ConfigResource, name: str, value: str | None) -> None:
        if resource[0] == BROKER and name == MIN_INSYNC_REPLICAS and self._features.has_elr:
            if resource[1]:
                raise InvalidConfig(f"Broker-level {name} cannot be altered while ELR is enabled.")
            if value is None:
                raise InvalidConfig(f"Cluster-level {name} cannot be removed while ELR is enabled.")
        has_cordoned = self._features.metadata_version.has_cordoned_directories
        if resource[0] == BROKER and name == CORDONED_LOG_DIRS and not has_cordoned:
            raise InvalidConfig(
                f"The {name} configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
            )
        if value is not None and len(value) > VALUE_LENGTH_MAX:
            raise InvalidConfig(
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{VALUE_LENGTH_MAX} bytes."
            )

    def _check_name(self, resource: ConfigResource) -> None:
        kind, name = resource
        if kind == TOPIC:
            if not name:
                raise InvalidRequest("Default topic resources are not allowed.")
            check_topic_name(name)
        elif kind == BROKER:
            if name and _number(name, "Unable to parse broker name as a base 10 number.") < 0:
                raise InvalidRequest("Invalid negative broker ID.")
        elif kind == GROUP:
            if not name:
                raise InvalidRequest("Default group resources are not allowed.")
        elif kind == CLIENT_METRICS:
            if not name:
                raise InvalidRequest("Subscription name can't be empty")
        else:
            raise InvalidRequest(f"Unknown resource type {kind}")

    def _check_exists(self, resource: ConfigResource) -> None:
        kind, name = resource
        if kind == BROKER and name:
            node_id = _number(name, f"Invalid broker name {name}")
            if not self.has_node(node_id):
                raise BrokerIdNotRegistered(f"No node with id {node_id} found.")
        elif kind == TOPIC and not self.has_topic(name):
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")


def _number(text: str, otherwise: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidRequest(otherwise) from None


def _record(resource: ConfigResource, name: str, value: str | None) -> VersionedRecord:
    record = ConfigRecord(resource_type=resource[0], resource_name=resource[1], name=name, value=value)
    return VersionedRecord(record, 0)
