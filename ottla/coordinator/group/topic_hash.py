"""What the topics of a group are like, in one number: a group whose number changes is assigned anew (KIP-1101).

A topic's hash is made of its id, its name, and the racks of each partition; a group's of the hashes of its topics in
the order of their names. Both are XXH3 over the bytes that Kafka's hasher is given, because the number is written to
the log: a broker of either kind that takes over sees that nothing has changed.
Called by the families whose groups are assigned by the coordinator.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from ottla.metadata import Image, TopicImage

_MAGIC = b"\0"
_INT32 = struct.Struct("<i")


class TopicHashes:
    """The hashes of topics, each computed when it is first asked for and again when the topic has changed."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, tuple[TopicImage, int]] = {}

    def group_hash(self, topics: Iterable[str], image: Image) -> int:
        """The hash of a group that is subscribed to these topics; those that do not exist do not count."""
        by_name = image.topics.by_name
        hashes = [self._topic_hash(by_name[name], image) for name in sorted(topics) if name in by_name]
        return _xxh3(struct.pack(f"<{len(hashes)}q", *hashes)) if hashes else 0

    def forget(self, topic: str) -> None:
        """The topic is gone; its hash is not kept for ever."""
        self._known.pop(topic, None)

    def _topic_hash(self, topic: TopicImage, image: Image) -> int:
        known = self._known.get(topic.name)
        # An image never changes, so the same object is the same topic. The racks of its brokers count as they were
        # when the topic last changed, as with Kafka.
        if known is not None and known[0] is topic:
            return known[1]
        found = topic_hash(topic, image)
        self._known[topic.name] = topic, found
        return found


def topic_hash(topic: TopicImage, image: Image) -> int:
    parts = [_MAGIC, topic.id[7::-1], topic.id[:7:-1], _text(topic.name), _INT32.pack(len(topic.partitions))]
    for index in range(len(topic.partitions)):
        parts.append(_INT32.pack(index))
        racks = [
            broker.rack
            for replica in topic.partitions[index].replicas
            if (broker := image.brokers.get(replica)) is not None and broker.rack is not None
        ]
        for rack in sorted(racks, key=_utf16):
            parts += [_INT32.pack(len(_utf16(rack)) // 2), _text(rack)]
    return _xxh3(b"".join(parts))


def _text(text: str) -> bytes:
    """Its UTF-16 units, and then how many they are."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT32.pack(len(units) // 2)


def _utf16(text: str) -> bytes:
    """Sorts as Java sorts."""
    return text.encode("utf-16-be", "surrogatepass")


def _xxh3(data: bytes) -> int:
    """As Java's signed long."""
    import xxhash  # only a broker with such groups needs it

    value: int = xxhash.xxh3_64_intdigest(data)
    return value - (1 << 64) if value >= 1 << 63 else value
