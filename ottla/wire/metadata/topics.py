"""Metadata records about topics and partitions."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int8, Int32, Message, field


class TopicRecord(Message, api_key=2, versions="0", flexible="0+"):
    """A topic exists."""

    name: str = field(entity="topicName")
    topic_id: Uuid = field()


class RemoveTopicRecord(Message, api_key=9, versions="0", flexible="0+"):
    """A topic and its partitions are gone."""

    topic_id: Uuid = field()


class PartitionRecord(Message, api_key=3, versions="0-2", flexible="0+"):
    """A partition exists, with these replicas and this leader."""

    partition_id: Int32 = field(default=-1)
    topic_id: Uuid = field()
    replicas: list[Int32] = field(entity="brokerId")
    isr: list[Int32] = field()
    removing_replicas: list[Int32] = field(entity="brokerId")
    adding_replicas: list[Int32] = field(entity="brokerId")
    leader: Int32 = field(default=-1, entity="brokerId", doc="-1 where there is none.")
    leader_recovery_state: Int8 = field(tag=0, doc="1 after an unclean election, until the leader has recovered.")
    leader_epoch: Int32 = field(default=-1)
    partition_epoch: Int32 = field(default=-1)
    directories: list[Uuid] = field("1+")
    eligible_leader_replicas: list[Int32] | None = field("2+", default=None, tag=1, entity="brokerId")
    last_known_elr: list[Int32] | None = field("2+", default=None, tag=2, entity="brokerId")


class PartitionChangeRecord(Message, api_key=5, versions="0-2", flexible="0+"):
    """Some of a partition's state has changed; what is not given stays."""

    partition_id: Int32 = field(default=-1)
    topic_id: Uuid = field()
    isr: list[Int32] | None = field(default=None, tag=0, entity="brokerId", doc="Null where it has not changed.")
    leader: Int32 = field(default=-2, tag=1, entity="brokerId", doc="-1 for none, -2 where it has not changed.")
    replicas: list[Int32] | None = field(
        default=None, tag=2, entity="brokerId", doc="Null where they have not changed."
    )
    removing_replicas: list[Int32] | None = field(default=None, tag=3, entity="brokerId")
    adding_replicas: list[Int32] | None = field(default=None, tag=4, entity="brokerId")
    leader_recovery_state: Int8 = field(default=-1, tag=5, doc="-1 where it has not changed.")
    directories: list[Uuid] | None = field("1+", default=None, tag=8)
    eligible_leader_replicas: list[Int32] | None = field("2+", default=None, tag=6, entity="brokerId")
    last_known_elr: list[Int32] | None = field("2+", default=None, tag=7, entity="brokerId")


class ClearElrRecord(Message, api_key=28, versions="0", flexible="0+"):
    """The eligible leader replicas of a topic, or of all topics, are cleared."""

    topic_name: str = field(entity="topicName", doc="Empty for all topics.")
