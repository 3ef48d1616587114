"""How coordinators write their records: an int16 before the key, and another before the value.

Before the key stands the type of the record, before the value its version. A key has one version only. A record
without a value is a tombstone, which has no frame; types are counted anew in each of the three topics.
"""

from __future__ import annotations

import struct

from ottla.types import Buffer
from ottla.wire.codec import decode_prefix, encode_into
from ottla.wire.failures import UnknownRecord
from ottla.wire.registry import message_class
from ottla.wire.schema import Message
from ottla.wire.versioned import read_int16, read_versioned, write_versioned


class CoordinatorRecords:
    """The records of one coordinator's topic."""

    def __init__(self, topic: str, names: dict[int, str]) -> None:
        self.topic = topic
        self.names = names
        """Record type -> what the names of its key and value classes begin with."""

    def read_key(self, data: Buffer) -> Message:
        """The key in `data`; `UnknownRecord` when a newer Kafka wrote it."""
        record_type = read_int16(data, "key.type")
        name = self.names.get(record_type)
        if name is None:
            raise UnknownRecord("key.type", 0, f"{record_type} is no known type of {self.topic}")
        key, _ = decode_prefix(message_class(f"{name}Key"), 0, data, 2)
        return key

    def read_value(self, key: Message, data: Buffer) -> tuple[Message, int]:
        """The value that belongs to `key`, and its version; `UnknownRecord` when a newer Kafka wrote it."""
        return read_versioned(message_class(f"{self._name(key)}Value"), data)

    def write_key(self, key: Message) -> bytes:
        self._name(key)
        out = bytearray(struct.pack(">h", key.schema.api_key))
        encode_into(key, 0, out)
        return bytes(out)

    def write_value(self, value: Message, version: int) -> bytes:
        return write_versioned(value, version)

    def _name(self, key: Message) -> str:
        assert key.schema.api_key is not None, f"{key.schema.name} is no key of {self.topic}"
        name = self.names.get(key.schema.api_key, "")
        assert key.schema.name == f"{name}Key", f"{key.schema.name} is no key of {self.topic}"
        return name


GROUP = CoordinatorRecords(
    "__consumer_offsets",
    {
        0: "LegacyOffsetCommit",
        1: "OffsetCommit",
        2: "GroupMetadata",
        3: "ConsumerGroupMetadata",
        4: "ConsumerGroupPartitionMetadata",
        5: "ConsumerGroupMemberMetadata",
        6: "ConsumerGroupTargetAssignmentMetadata",
        7: "ConsumerGroupTargetAssignmentMember",
        8: "ConsumerGroupCurrentMemberAssignment",
        10: "ShareGroupMemberMetadata",
        11: "ShareGroupMetadata",
        12: "ShareGroupTargetAssignmentMetadata",
        13: "ShareGroupTargetAssignmentMember",
        14: "ShareGroupCurrentMemberAssignment",
        15: "ShareGroupStatePartitionMetadata",
        16: "ConsumerGroupRegularExpression",
        17: "StreamsGroupMetadata",
        19: "StreamsGroupMemberMetadata",
        20: "StreamsGroupTargetAssignmentMetadata",
        21: "StreamsGroupTargetAssignmentMember",
        22: "StreamsGroupCurrentMemberAssignment",
        23: "StreamsGroupTopology",
    },
)
"""Records about groups and their offsets."""

TRANSACTION = CoordinatorRecords(
    "__transaction_state",
    {
        0: "TransactionLog",
    },
)
"""Records about transactions."""

SHARE = CoordinatorRecords(
    "__share_group_state",
    {
        0: "ShareSnapshot",
        1: "ShareUpdate",
    },
)
"""Records about the state of share partitions."""
