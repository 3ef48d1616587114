"""What a broker that was restarted answers to a producer that sends its last batches again: Ottla's, and Kafka's.

A client with five requests in flight (the default) that loses its leader sends all of them again, although they may be
in the log. Whoever has been restarted since has read its producers from a snapshot, which holds the last batch of each.
Kafka knows only that one then; Ottla finds the others in the log.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.support.logs import make_batch
from tests.support.processes import ClusterProcesses, NodeProcess
from tests.support.raw import RawClient

TOPIC = "sequences"
BATCH_COUNT = 3
COORDINATOR_LOAD_IN_PROGRESS = 14
NOT_ENOUGH_REPLICAS = 19
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
NOT_YET = (3, 6)
"""Unknown topic or partition, or not the leader: a broker that has just been elected has not heard of it."""
BOTH = [pytest.param("kafka", marks=pytest.mark.java), "ottla"]
pytestmark = pytest.mark.timeout(300)


class Sender:
    """One idempotent producer; batches of one record, the first with sequence 0."""

    def __init__(self, node: NodeProcess) -> None:
        with RawClient(node.port) as client:
            while True:
                made = client.send(InitProducerIdRequest(None, 60_000), 4, InitProducerIdResponse)
                if made.error_code != COORDINATOR_LOAD_IN_PROGRESS:
                    break
                time.sleep(0.05)  # Kafka has no block of producer ids yet
        assert made.error_code == 0, made
        self._producer_id = made.producer_id
        self._timestamp = int(time.time() * 1000)

    def send(self, node: NodeProcess, sequence: int) -> tuple[int, int]:
        """Error code and offset."""
        batch = make_batch(
            b"value %d" % sequence,
            timestamp=self._timestamp,
            producer_id=self._producer_id,
            producer_epoch=0,
            sequence=sequence,
        )
        data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(0, batch)])]
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data)
        while True:
            with RawClient(node.port) as client:
                (answer,) = client.send(request, 9, ProduceResponse).responses
            (one,) = answer.partition_responses
            if one.error_code not in NOT_YET:
                return one.error_code, one.base_offset
            time.sleep(0.05)


@pytest.mark.parametrize("kind", BOTH)
def test_batches_are_sent_again_to_a_leader_that_was_restarted(kind: str, tmp_path: Path) -> None:
    """In order, and by kill -9: Kafka writes a snapshot at the end of its recovery and then reads that."""
    with ClusterProcesses(tmp_path, brokers=1, is_kafka=kind == "kafka") as cluster:
        cluster.create_topic(TOPIC, 1, replicas=1)
        for end in (NodeProcess.stop, NodeProcess.kill):
            sender = Sender(cluster[1])
            before = [sender.send(cluster[1], sequence) for sequence in range(BATCH_COUNT)]
            assert [sender.send(cluster[1], sequence) for sequence in range(BATCH_COUNT)] == before
            end(cluster[1])
            cluster.start(1)
            check_answers(kind, sender, cluster[1], before)


@pytest.mark.parametrize("kind", BOTH)
def test_batches_are_sent_again_to_a_leader_that_was_restarted_as_a_follower(kind: str, tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, brokers=2, controllers=1, is_kafka=kind == "kafka") as cluster:
        cluster.create_topic(TOPIC, 1, replicas=2)
        for end in (NodeProcess.stop, NodeProcess.kill):
            cluster.wait(lambda: cluster.is_in_sync(TOPIC), "both in sync")
            first = cluster.leaders(TOPIC)[0]
            (follower,) = {1, 2} - {first}
            sender = Sender(cluster[first])
            before = [sender.send(cluster[first], sequence) for sequence in range(BATCH_COUNT)]
            end(cluster[follower])
            _wait_for_isr(cluster, [first])
            cluster.start(follower)
            cluster.wait(lambda: cluster.is_in_sync(TOPIC), "both in sync again")
            cluster[first].kill()
            _wait_for_isr(cluster, [follower])
            check_answers(kind, sender, cluster[follower], before)
            cluster.start(first)


def check_answers(kind: str, sender: Sender, node: NodeProcess, before: list[tuple[int, int]]) -> None:
    """Send the batches again, and one that is new."""
    offsets = [offset for error_code, offset in before if not error_code]
    assert offsets == list(range(offsets[0], offsets[0] + BATCH_COUNT))
    again = [sender.send(node, sequence) for sequence in range(BATCH_COUNT)]
    if kind == "kafka":
        forgotten = (OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert again == [*([forgotten] * (BATCH_COUNT - 1)), before[-1]]
    else:
        assert again == before
    assert sender.send(node, BATCH_COUNT) == (0, offsets[-1] + 1)


@pytest.mark.parametrize("kind", BOTH)
def test_a_batch_that_was_refused_for_want_of_replicas_is_overtaken(kind: str, tmp_path: Path) -> None:
    """The one sent after it is out of order, says Kafka. librdkafka begins a new epoch then, and sends with that what
    it does not know the outcome of: where a leader had died just before, records were there twice. Ottla refuses the
    second as it refused the first, and the client sends both again."""
    with ClusterProcesses(tmp_path, brokers=2, controllers=1, is_kafka=kind == "kafka") as cluster:
        cluster.create_topic(TOPIC, 1, replicas=2, configs={"min.insync.replicas": "2"})
        cluster.wait(lambda: cluster.is_in_sync(TOPIC), "both in sync")
        first = cluster.leaders(TOPIC)[0]
        (follower,) = {1, 2} - {first}
        sender = Sender(cluster[first])
        assert sender.send(cluster[first], 0) == (0, 0)
        cluster[follower].kill()
        _wait_for_isr(cluster, [first])
        assert sender.send(cluster[first], 1) == (NOT_ENOUGH_REPLICAS, -1)
        cluster.start(follower)
        cluster.wait(lambda: cluster.is_in_sync(TOPIC), "both in sync again")
        overtaking = OUT_OF_ORDER_SEQUENCE_NUMBER if kind == "kafka" else NOT_ENOUGH_REPLICAS
        assert sender.send(cluster[first], 2) == (overtaking, -1)
        assert sender.send(cluster[first], 1) == (0, 1)
        assert sender.send(cluster[first], 2) == (0, 2)
        assert sender.send(cluster[first], 4) == (OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


def _wait_for_isr(cluster: ClusterProcesses, node_ids: list[int]) -> None:
    cluster.wait(lambda: cluster.isr(TOPIC)[0] == node_ids, f"an ISR of {node_ids}")
