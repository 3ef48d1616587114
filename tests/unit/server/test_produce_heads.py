"""`ottla/server/produce_heads.py`: a request whose head is known does what it does when it is decoded."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.errors import InvalidTopicException, NotLeaderOrFollower, TopicAuthorizationFailed, UnknownTopicId
from ottla.net import ReceiveBuffer
from ottla.records import HEADER_SIZE, Codec
from ottla.replica import Partition
from ottla.server import RequestContext
from ottla.server.complaints import Complaints
from ottla.server.dispatch import Dispatcher
from ottla.server.handlers import produce
from ottla.server.produce_heads import ProduceHeads
from ottla.server.session import Port, Session
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.frames import read_response, write_request
from ottla.wire.messages.header import RequestHeader
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.world import Address
from tests.support.logs import make_batch
from tests.unit.replica.node import LISTENER, NODE_ID, TestNode, topic_id

VERSIONS = (9, 10, 12, 13)


class Wire:
    """A stream that takes everything and remembers it."""

    local = peer = Address("127.0.0.1", 4711)
    unsent_bytes = 0

    def __init__(self) -> None:
        self.sent = bytearray()
        self.is_closed = False

    def send(self, parts: Sequence[Any]) -> None:
        for part in parts:
            self.sent += part

    def pause_reading(self) -> None:
        assert not self.is_closed

    def resume_reading(self) -> None:
        assert not self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Producer:
    """A node and a connection to it, over which whole frames are sent."""

    def __init__(self, *, knows: bool = True) -> None:
        self.node = TestNode()
        self.knows = knows
        self.dispatcher = self.node.dispatcher
        self.port = Port(
            self.dispatcher,
            LISTENER,
            frame_max=1 << 20,
            receive_buffer=ReceiveBuffer(),
            complaints=Complaints(self.node.world.clock),
        )
        self.wire = Wire()
        self.session = Session(self.port, self.wire)

    def send(self, frame: bytes | bytearray) -> bytes:
        """Send a frame with its size; returns what came back."""
        route = self.dispatcher.route(int.from_bytes(frame[4:8], "big"))
        if route is not None and not self.knows:
            route.heads = None
        if self.wire.is_closed:
            self.wire = Wire()
            self.session = Session(self.port, self.wire)
        self.wire.sent.clear()
        self.session.get_buffer()[: len(frame)] = frame
        self.session.on_received(len(frame))
        return bytes(self.wire.sent)

    def caught_up(self) -> bytes:
        """The follower fetches all that is new; returns what that lets the node answer."""
        self.wire.sent.clear()
        for table in self.node.replicas.by_name.values():
            for partition in table.values():
                if partition.followers:
                    end_offset = partition.local_log().log_end_offset
                    partition.record_fetch(2, fetch_offset=end_offset, log_start_offset=0)
        self.node.run_ms(0)
        return bytes(self.wire.sent)

    def heads(self, version: int) -> ProduceHeads:
        route = self.dispatcher.routes[version]
        assert route.heads is not None
        return route.heads


@pytest.fixture(autouse=True)
def _routes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Dispatcher.route` makes a new route at every call; here it is asked for one that may be there."""
    make = Dispatcher.route
    monkeypatch.setattr(Dispatcher, "route", lambda self, key: self.routes.get(key) or make(self, key))


def request(
    topic: str,
    index: int,
    records: bytes | None,
    version: int,
    *,
    acks: int = -1,
    uuid: Uuid | None = None,
    transactional_id: str | None = None,
) -> ProduceRequest:
    has_id = version >= 13
    data = TopicProduceData(
        "" if has_id else topic,
        (uuid or topic_id(topic)) if has_id else ZERO_UUID,
        [PartitionProduceData(index, records)],
    )
    return ProduceRequest(transactional_id, acks, 1000, [data])


def frame_of(message: ProduceRequest, version: int, *, client_id: str | None = "test", number: int = 7) -> bytearray:
    return bytearray(write_request(RequestHeader(0, version, number, client_id), message))


def answer_of(received: bytes, version: int) -> PartitionProduceResponse:
    body = read_response(received[4:], 0, version).body
    assert isinstance(body, ProduceResponse)
    return body.responses[0].partition_responses[0]


def random_frame(chance: random.Random, version: int, sequences: dict[int, int]) -> bytearray:
    """A producer's request, the same few heads again and again; now and then damaged."""
    producer_id = chance.choice([-1, -1, 7])
    sequence = -1
    if producer_id >= 0:
        sequence = max(0, sequences.get(producer_id, 0) + chance.choice([0, 0, 0, 1, -1]))
        sequences[producer_id] = sequence + 1
    batch = bytearray(
        make_batch(
            chance.randbytes(chance.choice([3, 40, 400, 20_000])),
            codec=chance.choice([Codec.NONE, Codec.NONE, Codec.LZ4]),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            sequence=sequence,
        )
    )
    if chance.randrange(8) == 0:
        batch[chance.randrange(len(batch))] ^= 1 << chance.randrange(8)
    message = request(
        chance.choice(["t", "t", "t", "u", "no-such-topic"]),
        chance.choice([0, 0, 0, 0, 0, 1, 9]),
        None if chance.randrange(30) == 0 else bytes(batch),
        version,
        acks=chance.choice([-1, -1, -1, -1, -1, 1, 0, 5]),
        transactional_id=chance.choice([None, None, None, None, None, "x"]),
    )
    if chance.randrange(10) == 0:
        message.topic_data += request("t", 1, bytes(make_batch(b"v")), version).topic_data
    frame = frame_of(
        message,
        version,
        client_id=chance.choice(["test", "test", "test", "tøst", None, ""]),
        number=chance.randrange(1 << 31),
    )
    match chance.randrange(8):
        case 0:
            at = chance.randrange(12, min(len(frame), 80))
            frame[at] ^= 1 << chance.randrange(8)
        case 1:
            frame[chance.randrange(len(frame) - 3, len(frame))] = 1
        case 2:
            frame += b"\0" * chance.randrange(1, 3)
            frame[:4] = (len(frame) - 4).to_bytes(4, "big")
    return frame


FOLLOWED: dict[str, Any] = {"replicas": (NODE_ID, 2), "isr": (NODE_ID, 2)}


@pytest.mark.parametrize("replicas", [{}, FOLLOWED], ids=["alone", "with a follower"])
@pytest.mark.parametrize("seed", range(20))
def test_a_known_request_does_and_answers_what_the_handler_does(
    seed: int, replicas: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nodes get the same frames, and one of them decodes every one."""
    short, long = Producer(), Producer(knows=False)
    for producer in (short, long):
        producer.node.create_topic("t", 2, **replicas)
        producer.node.create_topic("u", 1, **replicas)
    chance = random.Random(seed)
    sequences: dict[int, int] = {}
    found: list[bool] = []
    find = ProduceHeads.find

    def counted(heads: ProduceHeads, *asked: Any) -> Any:
        found.append(find(heads, *asked) is not None)
        return find(heads, *asked)

    monkeypatch.setattr(ProduceHeads, "find", counted)
    version = VERSIONS[seed % len(VERSIONS)]
    for step in range(200):
        frame = random_frame(chance, version, sequences)
        assert short.send(frame) == long.send(frame), f"step {step}"
        # With acks=all the answer comes when the follower has the batch.
        assert short.caught_up() == long.caught_up(), f"step {step}"
        assert short.wire.is_closed == long.wire.is_closed
    assert sum(found) > 5, "some of them were known"
    for topic, index in (("t", 0), ("t", 1), ("u", 0)):
        ours, theirs = short.node.partition(topic, index), long.node.partition(topic, index)
        assert all(getattr(ours.stats, name) == getattr(theirs.stats, name) for name in ours.stats.__slots__)
        our_log, their_log = ours.local_log(), theirs.local_log()
        assert our_log.high_watermark == their_log.high_watermark
        assert list(our_log.segments.active.file().read_at(0, 1 << 20)) == list(
            their_log.segments.active.file().read_at(0, 1 << 20)
        )
    ours_counted, theirs_counted = (one.node.context.metrics.api("Produce", version) for one in (short, long))
    assert ours_counted.requests == theirs_counted.requests
    assert ours_counted.response_bytes == theirs_counted.response_bytes
    assert ours_counted.sizes == theirs_counted.sizes


@pytest.mark.parametrize("version", VERSIONS)
def test_the_second_request_of_a_producer_is_not_decoded(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Producer()
    producer.node.create_topic("t")
    for _ in range(3):
        producer.send(frame_of(request("t", 0, make_batch(b"v"), version), version))
    monkeypatch.setattr("ottla.server.session.decode_prefix", None)
    received = producer.send(frame_of(request("t", 0, make_batch(b"a", b"b"), version), version, number=4711))
    assert received[4:8] == (4711).to_bytes(4, "big")
    answer = answer_of(received, version)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (0, 3, -1, 0)
    assert producer.node.partition().local_log().high_watermark == 5


SIZES = [*range(140), *range(16_360, 16_400), *range(2**21 - 8, 2**21 + 8)]


@pytest.mark.parametrize("version", VERSIONS)
def test_records_of_any_size_are_cut_out_as_decoding_does(version: int) -> None:
    """Around the sizes whose own size takes one byte more; what is no batch, or very large, is left to the decoder."""
    producer = Producer()
    producer.node.create_topic("t")
    producer.send(frame_of(request("t", 0, make_batch(b"v"), version), version))
    heads = producer.heads(version)
    for size in SIZES:
        records = bytes(index & 255 for index in range(3)).ljust(size, b"r")[:size]
        frame = memoryview(frame_of(request("t", 0, records, version), version))[4:]
        found = heads.find(frame, len("test"))
        if HEADER_SIZE <= size < 2**21 - 1:
            assert found is not None, size
            assert found[1] == records, size
            for at in (1, 2, 3):  # tags behind the records
                frame[-at] = 1
                assert heads.find(frame, len("test")) is None, (size, at)
                frame[-at] = 0
            assert heads.find(frame[:-1], len("test")) is None, "cut off"
        else:
            assert found is None, size


def test_a_known_request_of_a_topic_that_was_deleted_is_refused() -> None:
    producer = Producer()
    producer.node.create_topic("t")
    frame = frame_of(request("t", 0, make_batch(b"v"), 13), 13)
    for _ in range(4):
        assert answer_of(producer.send(frame), 13).error_code == 0
    producer.node.delete_topic("t")
    assert answer_of(producer.send(frame), 13).error_code == UnknownTopicId.code
    producer.node.create_topic("t", uuid=Uuid(16 * b"\5"))
    assert answer_of(producer.send(frame), 13).error_code == UnknownTopicId.code


def test_a_known_request_to_a_leader_that_leads_no_more_is_refused() -> None:
    producer = Producer()
    producer.node.create_topic("t")
    frame = frame_of(request("t", 0, make_batch(b"v"), 12), 12)
    for _ in range(4):
        assert answer_of(producer.send(frame), 12).error_code == 0
    producer.node.change_partition("t", 0, leader=-1)
    assert answer_of(producer.send(frame), 12).error_code == NotLeaderOrFollower.code


def test_a_client_that_may_write_to_internal_topics_opens_the_way_for_nobody_else() -> None:
    producer = Producer()
    producer.node.create_topic("__transaction_state")
    message = request("__transaction_state", 0, make_batch(b"v", key=b"k"), 12)
    for _ in range(4):
        assert answer_of(producer.send(frame_of(message, 12, client_id="__admin_client")), 12).error_code == 0
    assert answer_of(producer.send(frame_of(message, 12)), 12).error_code == InvalidTopicException.code


def test_what_is_remembered_is_bounded_and_shared_by_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.server.produce_heads.HEADS_MAX", 5)
    producer = Producer()
    producer.node.create_topic("t", 8)
    for index in range(8):
        for client_id in ("a", "client-2", None, "", "x" * 3000):
            frame = frame_of(request("t", index, make_batch(b"v"), 12), 12, client_id=client_id)
            assert answer_of(producer.send(frame), 12).error_code == 0
    assert [one.index for one in producer.heads(12)._heads.values()] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_id_that_is_no_text_is_refused_whatever_else_is_known(version: int) -> None:
    producer = Producer()
    producer.node.create_topic("t")
    frame = frame_of(request("t", 0, make_batch(b"v"), version), version)
    for _ in range(4):
        assert answer_of(producer.send(frame), version).error_code == 0
    frame[frame.index(b"test")] = 0xFF
    assert producer.send(frame) == b""
    assert producer.wire.is_closed


def test_a_topic_with_the_longest_name_is_written_to() -> None:
    producer = Producer()
    for name in ("n" * 126, "n" * 127, "n" * 249):
        producer.node.create_topic(name, uuid=Uuid(len(name).to_bytes(16, "big")))
        frame = frame_of(request(name, 0, make_batch(b"v"), 12), 12)
        assert [answer_of(producer.send(frame), 12).base_offset for _ in range(4)] == [0, 1, 2, 3]
    assert [one.topic for one in producer.heads(12)._heads.values()] == ["n" * 126]


def test_with_followers_a_request_is_not_decoded_either(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Producer()
    producer.node.create_topic("t", **FOLLOWED)
    frame = frame_of(request("t", 0, make_batch(b"v"), 12, acks=1), 12)
    assert answer_of(producer.send(frame), 12).error_code == 0
    monkeypatch.setattr("ottla.server.session.decode_prefix", None)
    assert answer_of(producer.send(frame), 12).base_offset == 1


def test_a_known_request_with_acks_all_is_answered_when_its_followers_have_it() -> None:
    producer = Producer()
    producer.node.create_topic("t", **FOLLOWED)
    frame = frame_of(request("t", 0, make_batch(b"v"), 12), 12)
    for offset in range(3):
        assert producer.send(frame) == b""
        assert answer_of(producer.caught_up(), 12).base_offset == offset
    assert len(producer.heads(12)) == 1


@pytest.mark.parametrize("replicas", [{}, FOLLOWED], ids=["alone", "with a follower"])
@pytest.mark.parametrize("version", [3, 8, *VERSIONS])
@pytest.mark.parametrize("acks", [1, -1, 0])
def test_no_batch_gets_past_admission(
    version: int, acks: int, replicas: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known heads, first requests, several partitions, whatever acks: who may not write does not write."""
    producer = Producer()
    producer.node.create_topic("t", 2, **replicas)
    one = request("t", 0, make_batch(b"v"), version, acks=acks)
    two = request("t", 0, make_batch(b"v"), version, acks=acks)
    two.topic_data[0].partition_data.append(PartitionProduceData(1, make_batch(b"v")))
    for _ in range(3):  # so that the head is known
        producer.send(frame_of(one, version))
        producer.caught_up()
    ends = [producer.node.partition("t", index).local_log().log_end_offset for index in (0, 1)]
    assert ends == [3, 0]
    asked: list[tuple[str | None, int]] = []

    def refuse(context: RequestContext, partition: Partition) -> None:
        asked.append((context.client_id, partition.index))
        raise TopicAuthorizationFailed

    monkeypatch.setattr(produce, "_admit", refuse)
    for message, count in ((one, 1), (two, 2)):
        asked.clear()
        received = producer.send(frame_of(message, version, client_id="mallory"))
        assert asked == [("mallory", index) for index in range(count)]
        if acks:
            assert answer_of(received, version).error_code == TopicAuthorizationFailed.code
        else:
            assert producer.wire.is_closed
    assert [producer.node.partition("t", index).local_log().log_end_offset for index in (0, 1)] == ends
