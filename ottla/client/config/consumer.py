"""The settings of consumers and of share consumers (kafka-facts/config-consumer.json, checked by a test).

One setting differs from Kafka's: `group.protocol` may also be `auto`, and is when nobody says otherwise: the new
protocol where the broker has it, the classic one where it has not, or where a setting was given that only the classic
protocol has. Promises of a `ConsumerConfig`: settings of the protocol that is not used were not given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.client.config.client import ClientConfig
from ottla.client.config.objects import ObjectSetting, load, objects, one_object
from ottla.client.config.offset_reset import OffsetReset, check_offset_reset
from ottla.client.serialization.protocol import Deserializer, FunctionDeserializer
from ottla.config.table import HIGH, LOW, MIB, Setting, boolean, class_name, integer, string, string_list
from ottla.errors import InvalidConfig
from ottla.world import next_number

if TYPE_CHECKING:
    from ottla.client.group.assignors import Assignor

_JAVA = "org.apache.kafka.clients.consumer."
ASSIGNOR_NAMES = {
    "range": f"{_JAVA}RangeAssignor",
    "roundrobin": f"{_JAVA}RoundRobinAssignor",
    "sticky": f"{_JAVA}StickyAssignor",
    "cooperative-sticky": f"{_JAVA}CooperativeStickyAssignor",
}
"""The names that assignors have on the wire, which people know better than the classes."""

CLASSIC_ONLY = ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms")
CONSUMER_ONLY = ("group.remote.assignor",)
SHARE_ONLY = ("share.acknowledgement.mode", "share.acquire.mode")
INSTANCE_ID_MAX = 249


def _assignors(name: str, value: object) -> tuple[Any, ...]:
    """Names and objects, as they were given: a name is loaded when the classic protocol needs it."""
    items = string_list(name, value) if isinstance(value, str) else value
    found = []
    for item in items if isinstance(items, list | tuple) else (items,):
        if isinstance(item, str):
            item = ASSIGNOR_NAMES.get(item, item)
            if item not in ASSIGNOR_NAMES.values() and ":" not in item:
                known = ", ".join(ASSIGNOR_NAMES)
                raise InvalidConfig(f"{name}: Ottla has no {item}; give an assignor, 'module:Name', or one of {known}")
        elif not callable(getattr(item, "assign", None)):
            raise InvalidConfig(f"{name}: {item!r} has no method assign; give an assignor or its name")
        found.append(item)
    return tuple(found)


def _acquire_mode(name: str, value: str) -> None:
    if value.upper() not in ("BATCH_OPTIMIZED", "RECORD_LIMIT"):
        raise InvalidConfig(
            f"Invalid value {value} for configuration {name}: Invalid value `{value}` for configuration {name}. "
            "The value must either be 'batch_optimized' or 'record_limit'."
        )


class FetchConfig(ClientConfig):
    """What consumers and share consumers have in common."""

    allow_auto_create_topics = Setting(
        "allow.auto.create.topics", boolean, True,
        doc="Whether asking for a topic that does not exist may create it, where the broker allows that.",
    )  # fmt: skip
    auto_commit_interval_ms = Setting(
        "auto.commit.interval.ms", integer, 5000, min=0, importance=LOW,
        doc="How often positions are committed with `enable.auto.commit`.",
    )  # fmt: skip
    check_crcs = Setting(
        "check.crcs", boolean, True, importance=LOW,
        doc="Whether the checksum of every batch is checked.",
    )  # fmt: skip
    client_id = Setting(
        "client.id", string, "", importance=LOW,
        doc="A name that is sent with every request, for the broker's logs, metrics and quotas.",
    )  # fmt: skip
    client_rack = Setting(
        "client.rack", string, "", importance=LOW,
        doc="Where this client is, as in `broker.rack`: it reads from a replica there when there is one.",
    )  # fmt: skip
    default_api_timeout_ms = Setting(
        "default.api.timeout.ms", integer, 60_000, min=0,
        doc="How long a call may take that was given no time.",
    )  # fmt: skip
    exclude_internal_topics = Setting(
        "exclude.internal.topics", boolean, True,
        doc="Whether a pattern leaves out topics like `__consumer_offsets`.",
    )  # fmt: skip
    fetch_max_bytes = Setting(
        "fetch.max.bytes", integer, 50 * MIB, min=0,
        doc="The most bytes of one fetch. The first batch is returned whole even when it alone is larger.",
    )  # fmt: skip
    fetch_max_wait_ms = Setting(
        "fetch.max.wait.ms", integer, 500, min=0, importance=LOW,
        doc="How long the broker waits for `fetch.min.bytes` before it answers with what there is.",
    )  # fmt: skip
    fetch_min_bytes = Setting(
        "fetch.min.bytes", integer, 1, min=0, importance=HIGH,
        doc="How many bytes a broker gathers before it answers a fetch.",
    )  # fmt: skip
    group_id: Setting[str | None] = Setting(
        "group.id", string, None, importance=HIGH,
        doc="The group that this consumer belongs to. It is needed to subscribe and to commit.",
    )  # fmt: skip
    internal_throw_on_fetch_stable_offset_unsupported = Setting(
        "internal.throw.on.fetch.stable.offset.unsupported", boolean, False, internal=True, importance=LOW,
        doc="Whether a broker too old to tell stable offsets is an error.",
    )  # fmt: skip
    key_deserializer: Setting[Deserializer[Any] | None] = ObjectSetting(
        "key.deserializer", class_name, one_object("deserialize", wrap=FunctionDeserializer), None, importance=HIGH,
        doc="What turns the bytes of a key into an object. Without one, keys stay bytes.",
    )  # fmt: skip
    max_partition_fetch_bytes = Setting(
        "max.partition.fetch.bytes", integer, 1 * MIB, min=0, importance=HIGH,
        doc="The most bytes of one partition in a fetch. The first batch is returned whole even when it is larger.",
    )  # fmt: skip
    max_poll_interval_ms = Setting(
        "max.poll.interval.ms", integer, 300_000, min=1,
        doc="A consumer that does not poll for this long gives up its place in the group.",
    )  # fmt: skip
    max_poll_records = Setting(
        "max.poll.records", integer, 500, min=1,
        doc="The most records that one poll returns.",
    )  # fmt: skip
    share_acknowledgement_mode = Setting(
        "share.acknowledgement.mode", string, "implicit", valid=("implicit", "explicit"),
        doc="Whether a share consumer's next poll accepts all records of the last, or each is acknowledged by name.",
    )  # fmt: skip
    share_acquire_mode = Setting(
        "share.acquire.mode", string, "BATCH_OPTIMIZED", check=_acquire_mode,
        doc="Whether a share consumer may be given whole batches, or never more than `max.poll.records`.",
    )  # fmt: skip
    value_deserializer: Setting[Deserializer[Any] | None] = ObjectSetting(
        "value.deserializer", class_name, one_object("deserialize", wrap=FunctionDeserializer), None, importance=HIGH,
        doc="What turns the bytes of a value into an object. Without one, values stay bytes.",
    )  # fmt: skip

    def _derive(self) -> None:
        super()._derive()
        if self.group_id is not None and not self.group_id:
            raise InvalidConfig("The configured group.id should not be an empty string or whitespace.")


class ConsumerConfig(FetchConfig):
    """A consumer's settings. `read_settings(ConsumerConfig, {"group.id": "g"}, {"bootstrap_servers": "b:9092"})`."""

    auto_offset_reset = Setting(
        "auto.offset.reset", string, "latest", check=check_offset_reset,
        doc="Where to begin without an offset: `latest`, `earliest`, `by_duration:PT1H` (so far back), or `none`.",
    )  # fmt: skip
    enable_auto_commit = Setting(
        "enable.auto.commit", boolean, True,
        doc="Whether positions are committed by themselves, every `auto.commit.interval.ms`.",
    )  # fmt: skip
    group_instance_id: Setting[str | None] = Setting(
        "group.instance.id", string, None, may_be_empty=False,
        doc="A name that lasts over restarts: a member that returns under it within the session keeps its partitions.",
    )  # fmt: skip
    group_protocol = Setting(
        "group.protocol", string, "auto", valid=("CONSUMER", "CLASSIC", "AUTO"), ignore_case=True, importance=HIGH,
        doc="Who shares out partitions: the broker (`consumer`), a member (`classic`), or as the broker can (`auto`).",
    )  # fmt: skip
    group_remote_assignor: Setting[str | None] = Setting(
        "group.remote.assignor", string, None,
        doc="The broker's assignor to use with the consumer protocol; without one the broker chooses.",
    )  # fmt: skip
    heartbeat_interval_ms = Setting(
        "heartbeat.interval.ms", integer, 3000, importance=HIGH,
        doc="How often a member of a classic group tells the coordinator that it lives.",
    )  # fmt: skip
    interceptor_classes: Setting[tuple[Any, ...]] = ObjectSetting(
        "interceptor.classes", string_list, objects("on_consume", "on_commit"), (), importance=LOW,
        doc="Objects that see records before `poll` returns them (`on_consume`), and commits (`on_commit`).",
    )  # fmt: skip
    isolation_level = Setting(
        "isolation.level", string, "read_uncommitted", valid=("read_committed", "read_uncommitted"),
        doc="Whether records of open and aborted transactions are read.",
    )  # fmt: skip
    partition_assignment_strategy: Setting[tuple[Any, ...]] = ObjectSetting(
        "partition.assignment.strategy", string_list, _assignors,
        (ASSIGNOR_NAMES["range"], ASSIGNOR_NAMES["cooperative-sticky"]),
        doc="How a classic group shares out partitions: assignors or their names, the first that all members have.",
    )  # fmt: skip
    session_timeout_ms = Setting(
        "session.timeout.ms", integer, 45_000, importance=HIGH,
        doc="A member of a classic group that is silent for this long is taken out.",
    )  # fmt: skip

    offset_reset: OffsetReset
    """`auto.offset.reset`, parsed."""

    def _derive(self) -> None:
        super()._derive()
        self.offset_reset = OffsetReset.parse(self.auto_offset_reset)
        self._settle("group.protocol", self._protocol())
        self._check_group()
        if not self.client_id:
            last = self.group_instance_id or next_number("consumer")
            self._settle("client.id", f"consumer-{self.group_id or 'null'}-{last}")

    def assignors(self) -> tuple[Assignor, ...]:
        """New assignors for one member, in the order of preference; `InvalidConfig` when two have the same name."""
        name = "partition.assignment.strategy"
        made = [load(name, item) if isinstance(item, str) else item for item in self.partition_assignment_strategy]
        found: tuple[Assignor, ...] = tuple(item() if isinstance(item, type) else item for item in made)
        from ottla.client.group.assignors import Assignor

        for one in found:
            if not isinstance(one, Assignor):
                raise InvalidConfig(f"{name}: {one!r} is no Assignor; an assignor of your own is a subclass of it")
        names = [assignor.name for assignor in found]
        for twice in names:
            if names.count(twice) > 1:
                raise InvalidConfig(f"{name}: the assignor name {twice!r} is used by more than one assignor")
        return found

    def _protocol(self) -> str:
        """The protocol asked for, in lower case; `auto` is settled when a setting says which one is meant."""
        protocol = self.group_protocol.lower()
        if protocol == "auto":
            if self._given(CLASSIC_ONLY):
                protocol = "classic"
            elif self._given(CONSUMER_ONLY):
                protocol = "consumer"
        self._refuse(SHARE_ONLY, "cannot be set for a consumer, only for a share consumer")
        if protocol == "classic":
            self._refuse(CONSUMER_ONLY, self._because("CLASSIC", CLASSIC_ONLY))
        elif protocol == "consumer":
            self._refuse(CLASSIC_ONLY, self._because("CONSUMER", CONSUMER_ONLY))
        return protocol

    def _because(self, protocol: str, asked_by: tuple[str, ...]) -> str:
        if self.was_given("group.protocol") and self.group_protocol.upper() == protocol:
            return f"cannot be set when group.protocol={protocol}"
        return (
            f"cannot be set together with {', '.join(self._given(asked_by))}, which only group.protocol={protocol} has"
        )

    def _refuse(self, names: tuple[str, ...], why: str) -> None:
        if given := self._given(names):
            raise InvalidConfig(f"{', '.join(given)} {why}")

    def _given(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if self.originals.get(name) not in (None, "")]

    def _check_group(self) -> None:
        if self.group_instance_id is not None:
            _check_instance_id(self.group_instance_id)
        may_be_classic = self.group_id is not None and self.group_protocol != "consumer"
        if may_be_classic and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise InvalidConfig(
                f"heartbeat.interval.ms must be lower than session.timeout.ms: it is {self.heartbeat_interval_ms}, "
                f"and the session {self.session_timeout_ms}"
            )
        if self.group_id is None and self.enable_auto_commit:
            if self.was_given("enable.auto.commit"):
                raise InvalidConfig("enable.auto.commit cannot be set to true when default group id (null) is used.")
            self._settle("enable.auto.commit", False)


class ShareConsumerConfig(FetchConfig):
    """A share consumer's settings: a consumer's, without what its group decides for all members."""

    def _derive(self) -> None:
        super()._derive()
        if self.group_id is None:
            raise InvalidConfig("group.id is needed: a share consumer is always a member of a share group")
        if not self.client_id:
            self._settle("client.id", f"consumer-{self.group_id}-{next_number('consumer')}")


def _check_instance_id(text: str) -> None:
    """The rules of topic names, which Kafka also applies here."""
    reason = None
    if text in (".", ".."):
        reason = "cannot be '.' or '..'"
    elif len(text) > INSTANCE_ID_MAX:
        reason = f"is longer than {INSTANCE_ID_MAX} characters"
    elif not all(char.isascii() and (char.isalnum() or char in "._-") for char in text):
        reason = "may have ASCII letters and digits, '.', '_' and '-' only"
    if reason is not None:
        raise InvalidConfig(f"Invalid value {text} for configuration group.instance.id: it {reason}")
