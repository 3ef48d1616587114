"""The heads of Produce requests: what comes before the records, decoded once for all requests that begin alike.

Producers send the same request over and over; nothing but its correlation id and its records are new. What comes
before the records, from the end of the header on, is a key of a table here. A `ProduceHead` is what those bytes say and
what the answer looks like that follows from them: nothing else goes into it, so it cannot become wrong. Whether the
partition is there, is led here and may be written to is asked every time, by the handler.

Promises: `find` gives what decoding the frame would, or nothing: only a request for one partition without a transaction
has a head here. The table is bounded. It spares a request of one record a third of its time. Called by `session`.
"""

from __future__ import annotations

import struct

from ottla.records import HEADER_SIZE
from ottla.types import Uuid
from ottla.wire import encode
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

FIRST_VERSION = 9
"""The first with lengths of one byte and with tags: in older ones the bytes lie elsewhere."""
TOPIC_ID_VERSION = 13
HEADS_MAX = 8192
"""Heads that are remembered of one version: a few hundred bytes each. There is about one a partition."""
NAME_SIZE_MAX = 126
"""Of a topic: the size of a longer name takes two bytes, and all else lies elsewhere."""

_CLIENT_ID_START = 10
"""Behind API key, version, correlation id and the client id's own size."""
_NAME_SIZE_AT = 9
"""The size of a topic's name, plus 1: behind the header's end, no transactional id, acks, time-out and a count of
topics."""
_BEHIND_NAME = 14
"""What else comes before the size of the records: with the above, a count of partitions and an index."""
_HEAD_WITH_ID = 30
"""The same all in one where the topic has an id."""
_NO_RECORDS = 4
"""Records that are null, and the ends of partition, topic and request, which have no tags."""

_ENDS = 3
"""The ends of partition, topic and request, which have no tags: a zero each."""
_ONE_BYTE_MAX = 127
_TWO_BYTES_MAX = 2**14
_THREE_BYTES_MAX = 2**21 + 1
"""How large the records are at most, with their size, where that takes so many bytes. From 2 MiB on, decoding costs
nothing beside the rest."""

_SIZE = struct.Struct(">i")
_CORRELATION_ID = struct.Struct(">i")
_OFFSETS = struct.Struct(">qqq")
"""Of an answer: base offset, append time, log start."""
_MARK = _OFFSETS.pack(-2, -3, -4)


class ProduceHead:
    """One head: the request without its records, and the answer to one that went well."""

    __slots__ = ("_answer", "_offsets_at", "acks", "index", "request", "topic", "topic_id")

    def __init__(self, request: ProduceRequest, response_head: bytes, version: int) -> None:
        topic = request.topic_data[0]
        index = topic.partition_data[0].index
        self.request = ProduceRequest(
            None,
            request.acks,
            request.timeout_ms,
            [TopicProduceData(topic.name, topic.topic_id, [PartitionProduceData(index, None)])],
        )
        self.acks: int = request.acks
        self.topic: str = topic.name
        self.topic_id: Uuid = topic.topic_id
        self.index: int = index
        marked = PartitionProduceResponse(index, 0, *_OFFSETS.unpack(_MARK))
        answer = response_head + encode(
            ProduceResponse([TopicProduceResponse(topic.name, topic.topic_id, [marked])]), version
        )
        self._answer = _SIZE.pack(len(answer) - _SIZE.size) + answer[_SIZE.size :]
        self._offsets_at = answer.rindex(_MARK)

    def answer_into(
        self, out: bytearray, correlation_id: int, base_offset: int, append_time_ms: int, log_start_offset: int
    ) -> int:
        """Put the answer behind `out`, with its size and header; returns how long it is."""
        at = len(out)
        out += self._answer
        _CORRELATION_ID.pack_into(out, at + _SIZE.size, correlation_id)
        _OFFSETS.pack_into(out, at + self._offsets_at, base_offset, append_time_ms, log_start_offset)
        return len(self._answer)


class ProduceHeads:
    """The heads of one version. See the module."""

    __slots__ = ("_has_id", "_heads", "_response_head", "_version")

    def __init__(self, version: int, response_head: bytes) -> None:
        assert version >= FIRST_VERSION, f"version {version} has another form"
        self._version = version
        self._has_id = version >= TOPIC_ID_VERSION
        self._response_head = response_head
        self._heads: dict[bytes, ProduceHead] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def find(self, frame: memoryview, id_size: int) -> tuple[ProduceHead, memoryview] | None:
        """The head of a request and its records, which are as large as a batch's header at least; None when it has to
        be decoded. `id_size` is the size of the client id, as the header tells it.
        """
        size = len(frame)
        # The last byte of the header, which says that it has no tags; it is part of the key.
        position = _CLIENT_ID_START + id_size if id_size > 0 else _CLIENT_ID_START
        if self._has_id:
            end = position + _HEAD_WITH_ID
        elif position + _NAME_SIZE_AT < size:
            end = position + _BEHIND_NAME + frame[position + _NAME_SIZE_AT]
        else:
            return None
        head = self._heads.get(frame[position:end].tobytes())
        stop = size - _ENDS
        count = stop - end
        if head is None or count <= HEADER_SIZE or frame[stop] or frame[stop + 1] or frame[stop + 2]:
            return None
        # The size of the records, plus 1, in seven bits a byte: it has to be that of what is left behind it.
        if count <= _ONE_BYTE_MAX:
            start = end + 1
            if frame[end] != count:
                return None
        elif count <= _TWO_BYTES_MAX:
            start = end + 2
            count -= 1
            if frame[end] != count & 127 | 128 or frame[end + 1] != count >> 7:
                return None
        elif count <= _THREE_BYTES_MAX:
            start = end + 3
            count -= 2
            if (
                frame[end] != count & 127 | 128
                or frame[end + 1] != count >> 7 & 127 | 128
                or frame[end + 2] != count >> 14
            ):
                return None
        else:
            return None
        return None if id_size < -1 else (head, frame[start:stop])

    def learn(self, frame: memoryview, position: int, request: ProduceRequest, answer: object) -> None:
        """Remember the head of a request that was decoded and not refused, if it is one that `find` could find.

        `position` is where its body begins.
        """
        topics = request.topic_data
        if len(topics) != 1 or len(topics[0].partition_data) != 1 or request.transactional_id is not None:
            return
        if not request.acks or len(topics[0].name) > NAME_SIZE_MAX:
            return
        if isinstance(answer, ProduceResponse) and answer.responses[0].partition_responses[0].error_code:
            return
        head = ProduceHead(request, self._response_head, self._version)
        key = b"\0" + encode(head.request, self._version)[:-_NO_RECORDS]
        # Byte for byte, because a length may be written in more bytes than it needs, and then all else lies elsewhere.
        if frame[position - 1 : position - 1 + len(key)] != key:
            return
        if len(self._heads) >= HEADS_MAX:
            del self._heads[next(iter(self._heads))]
        self._heads[key] = head
