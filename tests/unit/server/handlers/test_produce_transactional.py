"""Produce in transactions: while the coordinator's answer is awaited, the request waits by itself and loses nothing."""

from __future__ import annotations

from typing import Any

from ottla.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    NotEnoughReplicas,
    UnknownTopicOrPartition,
)
from ottla.records import batches
from ottla.server import BrokerContext
from ottla.server.handlers import produce
from ottla.types import TopicPartition
from ottla.wire import decode, encode
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.logs import make_batch
from tests.unit.coordinator.transaction.play import Play

VERSION = 12


def begin(play: Play, request: ProduceRequest, version: int = VERSION) -> Any:
    """Call the handler as the session does: the frame is used for the next request when the handler has returned."""
    frame = bytearray(encode(request, version))
    read = decode(ProduceRequest, version, memoryview(frame))
    node = play.node
    answer = produce.handle(BrokerContext(version, 1, "test", node.connection, node.context, node.broker), read)
    frame[:] = bytes(len(frame))
    return answer


def request(tx: str | None, *partitions: tuple[str, int], producer_id: int = 1000, epoch: int = 1) -> ProduceRequest:
    batch = make_batch(b"first", b"second", producer_id=producer_id, producer_epoch=epoch, sequence=0,
                       is_transactional=True)  # fmt: skip
    topics = [TopicProduceData(name, partition_data=[PartitionProduceData(index, batch)]) for name, index in partitions]
    return ProduceRequest(tx, 1, 1000, topics)


def values(play: Play, topic: str, index: int) -> list[bytes | None]:
    return [
        record.value
        for batch in batches(play.read_log(TopicPartition(topic, index), 0))
        if not batch.is_control
        for record in batch.records()
    ]


def busy() -> Play:
    """A node whose transaction `tx` has ended but for a marker that cannot be written yet."""
    play = Play()
    for command in ("init tx", "init other", "produce tx 1000/0 t-0 0", "shrink t-0", "end tx 1000/0 commit"):
        play.execute(command)
    return play


def test_a_batch_that_waits_for_its_coordinator_is_kept_and_appended_whole() -> None:
    play = busy()
    waiting = begin(play, request("tx", ("u", 0)))
    assert not waiting.done()
    assert values(play, "u", 0) == []
    play.grow("t-0")
    play.execute("time 0.06s")
    assert waiting.result().responses[0].partition_responses[0].error_code == 0
    assert values(play, "u", 0) == [b"first", b"second"]


def test_a_request_that_waits_holds_up_nobody_else() -> None:
    play = busy()
    waiting = begin(play, request("tx", ("u", 0)))
    other = begin(play, request("other", ("u", 0), producer_id=1001, epoch=0))
    assert other.responses[0].partition_responses[0].error_code == 0
    assert not waiting.done()
    play.node.run_ms(200)
    assert waiting.result().responses[0].partition_responses[0].error_code == ConcurrentTransactions.code


def test_without_a_coordinator_the_client_is_told_to_try_again() -> None:
    play = Play()
    play.execute("init tx")
    play.node.delete_topic("__transaction_state")
    response = begin(play, request("tx", ("u", 0), epoch=0))
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == NotEnoughReplicas.code
    assert answer.error_message.endswith("Underlying error: COORDINATOR_NOT_AVAILABLE")


def test_a_partition_that_is_refused_leaves_the_others_whole() -> None:
    play = Play()
    play.execute("init tx")
    response = begin(play, request("tx", ("nosuch", 0), ("u", 0), ("u", 1), epoch=0))
    codes = {
        f"{topic.name}-{one.index}": one.error_code for topic in response.responses for one in topic.partition_responses
    }
    assert codes == {"nosuch-0": UnknownTopicOrPartition.code, "u-0": 0, "u-1": 0}
    assert play.execute("describe tx")[0].endswith("[u-0 u-1]")
    refused = begin(play, request("tx", ("u", 2), producer_id=4711))
    assert refused.responses[0].partition_responses[0].error_code == InvalidProducerIdMapping.code
