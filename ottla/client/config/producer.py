"""The settings of a producer (kafka-facts/config-producer.json, checked by a test), and what Kafka refuses together.

Promises of a `ProducerConfig`: idempotence is on only when `acks`, `retries` and the requests in flight allow it, and
`delivery_timeout_ms` is never below `linger_ms + request_timeout_ms`.
"""

from __future__ import annotations

import logging
from typing import Any

from ottla.client.config.client import ClientConfig
from ottla.client.config.objects import ObjectSetting, objects, one_object
from ottla.client.serialization.protocol import FunctionSerializer, Serializer
from ottla.config.table import (
    HIGH,
    INT_MAX,
    KIB,
    LOW,
    MIB,
    Setting,
    boolean,
    class_name,
    integer,
    long,
    string,
    string_list,
)
from ottla.errors import InvalidConfig
from ottla.world import next_number

log = logging.getLogger(__name__)

IN_FLIGHT_MAX_IDEMPOTENT = 5
"""The broker remembers this many batches of a producer, so more could not be told apart when they are sent again."""


def _acks(name: str, value: object) -> str:
    """`all`, or the number that stands for it: people write `acks=1` as a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return string(name, value)


def _gzip_level(name: str, value: int) -> None:
    if value != -1 and not 1 <= value <= 9:
        raise InvalidConfig(
            f"Invalid value {value} for configuration {name}: Value must be between 1 and 9 or equal to -1"
        )


def _partition_function(function: Any) -> Any:
    from ottla.client.producer.partitioners import FunctionPartitioner

    return FunctionPartitioner(function)


class ProducerConfig(ClientConfig):
    """A producer's settings. `read_settings(ProducerConfig, {"linger.ms": 5}, {"acks": "all"})`."""

    acks = ObjectSetting(
        "acks", string, _acks, "all", valid=("all", "-1", "0", "1"), importance=LOW,
        doc="Who has the record before it counts as sent: `all` replicas in sync, the leader alone (1), or nobody (0).",
    )  # fmt: skip
    batch_size = Setting(
        "batch.size", integer, 16 * KIB, min=0,
        doc="The most bytes of records that are gathered for one partition before they are sent; 0 sends each alone.",
    )  # fmt: skip
    buffer_memory = Setting(
        "buffer.memory", long, 32 * MIB, min=0, importance=HIGH,
        doc="The most bytes of records that wait to be sent; `send` blocks for `max.block.ms` when it is full.",
    )  # fmt: skip
    compression_gzip_level = Setting(
        "compression.gzip.level", integer, -1, check=_gzip_level,
        doc="How hard gzip tries, from 1 to 9; -1 is its own default.",
    )  # fmt: skip
    compression_lz4_level = Setting(
        "compression.lz4.level", integer, 9, min=1, max=17,
        doc="How hard lz4 tries.",
    )  # fmt: skip
    compression_type = Setting(
        "compression.type", string, "none", valid=("none", "gzip", "snappy", "lz4", "zstd"), importance=HIGH,
        doc="How batches are compressed. Full batches compress better.",
    )  # fmt: skip
    compression_zstd_level = Setting(
        "compression.zstd.level", integer, 3, min=-131_072, max=22,
        doc="How hard zstd tries.",
    )  # fmt: skip
    delivery_timeout_ms = Setting(
        "delivery.timeout.ms", integer, 120_000, min=0,
        doc="How long after `send` a record is at the latest known to be written or failed, retries included.",
    )  # fmt: skip
    enable_idempotence = Setting(
        "enable.idempotence", boolean, True, importance=LOW,
        doc="Whether records sent again are written once and in order. It needs `acks=all` and `retries` above 0.",
    )  # fmt: skip
    interceptor_classes: Setting[tuple[Any, ...]] = ObjectSetting(
        "interceptor.classes", string_list, objects("on_send", "on_acknowledgement"), (), importance=LOW,
        doc="Objects that see each record before it is sent (`on_send`) and its fate (`on_acknowledgement`).",
    )  # fmt: skip
    key_serializer: Setting[Serializer[Any] | None] = ObjectSetting(
        "key.serializer", class_name, one_object("serialize", wrap=FunctionSerializer), None, importance=HIGH,
        doc="What turns a key into bytes. Without one, keys are bytes already.",
    )  # fmt: skip
    linger_ms = Setting(
        "linger.ms", long, 5, min=0,
        doc="How long a batch waits for more records before it is sent though it is not full.",
    )  # fmt: skip
    max_block_ms = Setting(
        "max.block.ms", long, 60_000, min=0,
        doc="How long `send` waits for metadata or memory, and the calls of transactions for the coordinator.",
    )  # fmt: skip
    max_in_flight_requests_per_connection = Setting(
        "max.in.flight.requests.per.connection", integer, 5, min=1, importance=LOW,
        doc="How many requests a connection has under way. Above 1, retries without idempotence can change the order.",
    )  # fmt: skip
    max_request_size = Setting(
        "max.request.size", integer, 1 * MIB, min=0,
        doc="The largest request, and so the largest record, before compression.",
    )  # fmt: skip
    metadata_max_idle_ms = Setting(
        "metadata.max.idle.ms", long, 300_000, min=5000, importance=LOW,
        doc="A topic that was not sent to for this long is forgotten.",
    )  # fmt: skip
    partitioner_adaptive_partitioning_enable = Setting(
        "partitioner.adaptive.partitioning.enable", boolean, True, importance=LOW,
        doc="Whether records without a key go more often to partitions whose brokers take them faster.",
    )  # fmt: skip
    partitioner_availability_timeout_ms = Setting(
        "partitioner.availability.timeout.ms", long, 0, min=0, importance=LOW,
        doc="A partition whose broker took nothing for this long gets no record without a key; 0 does not look.",
    )  # fmt: skip
    partitioner_class: Setting[Any] = ObjectSetting(
        "partitioner.class", class_name, one_object("partition", wrap=_partition_function), None,
        doc="What chooses partitions: an object with `partition`, or such a function. Without one, Kafka's default.",
    )  # fmt: skip
    partitioner_ignore_keys = Setting(
        "partitioner.ignore.keys", boolean, False,
        doc="Whether records with a key are spread as those without one are.",
    )  # fmt: skip
    receive_buffer_bytes = Setting(
        "receive.buffer.bytes", integer, 32 * KIB, min=-1,
        doc="The kernel's buffer for what a connection receives; -1 leaves it to the system.",
    )  # fmt: skip
    retries = Setting(
        "retries", integer, INT_MAX, min=0, max=INT_MAX, importance=HIGH,
        doc="How often a batch is sent again. `delivery.timeout.ms` is the better bound.",
    )  # fmt: skip
    transaction_timeout_ms = Setting(
        "transaction.timeout.ms", integer, 60_000, importance=LOW,
        doc="How long a transaction may stay open before the coordinator aborts it.",
    )  # fmt: skip
    transaction_two_phase_commit_enable = Setting(
        "transaction.two.phase.commit.enable", boolean, False, importance=LOW,
        doc="Whether an outside coordinator ends the transactions, which then never time out (KIP-939).",
    )  # fmt: skip
    transactional_id: Setting[str | None] = Setting(
        "transactional.id", string, None, may_be_empty=False, importance=LOW,
        doc="The name under which transactions survive a restart; with it the producer is transactional.",
    )  # fmt: skip
    value_serializer: Setting[Serializer[Any] | None] = ObjectSetting(
        "value.serializer", class_name, one_object("serialize", wrap=FunctionSerializer), None, importance=HIGH,
        doc="What turns a value into bytes. Without one, values are bytes already.",
    )  # fmt: skip

    required_acks: int
    """`acks` as the protocol writes it: -1, 0 or 1."""

    def _derive(self) -> None:
        super()._derive()
        self.required_acks = -1 if self.acks == "all" else int(self.acks)
        self._settle_idempotence()
        self._check_transactions()
        self._settle_delivery_timeout()
        if not self.was_given("client.id"):
            self._settle("client.id", f"producer-{self.transactional_id or next_number('producer')}")

    def _settle_idempotence(self) -> None:
        """Refuse what a person asked for and cannot have; drop what was only the default."""
        if not self.enable_idempotence:
            return
        if self.retries == 0:
            self._without_idempotence(
                "retries is 0", "Must set retries to non-zero when using the idempotent producer."
            )
        if self.required_acks != -1:
            self._without_idempotence(
                f"acks is {self.acks}, not all",
                "Must set acks to all in order to use the idempotent producer. "
                "Otherwise we cannot guarantee idempotence.",
            )
        if self.max_in_flight_requests_per_connection > IN_FLIGHT_MAX_IDEMPOTENT:
            raise InvalidConfig(
                "To use the idempotent producer, max.in.flight.requests.per.connection must be set to at most "
                f"{IN_FLIGHT_MAX_IDEMPOTENT}. Current value is {self.max_in_flight_requests_per_connection}."
            )

    def _without_idempotence(self, why: str, refusal: str) -> None:
        if self.was_given("enable.idempotence"):
            raise InvalidConfig(refusal)
        log.info("Idempotence is off because %s", why)
        self._settle("enable.idempotence", False)

    def _check_transactions(self) -> None:
        if self.transactional_id is not None and not self.enable_idempotence:
            raise InvalidConfig("Cannot set a transactional.id without also enabling idempotence.")
        if self.transaction_two_phase_commit_enable and self.was_given("transaction.timeout.ms"):
            raise InvalidConfig(
                "Cannot set transaction.timeout.ms when transaction.two.phase.commit.enable is set to true. "
                "Transactions will not expire with two-phase commit enabled."
            )

    def _settle_delivery_timeout(self) -> None:
        least = min(min(self.linger_ms, INT_MAX) + self.request_timeout_ms, INT_MAX)
        if self.delivery_timeout_ms >= least:
            return
        rule = "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"
        if self.was_given("delivery.timeout.ms"):
            raise InvalidConfig(f"{rule}: it is {self.delivery_timeout_ms}, and they are {least}")
        log.warning("%s; it is set to %d", rule, least)
        self._settle("delivery.timeout.ms", least)
