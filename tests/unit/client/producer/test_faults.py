"""A producer against brokers and networks that fail, on virtual time: nothing lost, nothing twice, all in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.errors import BufferExhausted, ClientClosed, DeliveryTimeout, KafkaTimeout
from ottla.client.producer import AsyncProducer, Delivery
from ottla.errors import (
    KafkaStorageError,
    MessageTooLarge,
    NetworkException,
    NotEnoughReplicas,
    OutOfOrderSequenceNumber,
    TopicAuthorizationFailed,
    UnknownProducerId,
    UnknownTopicOrPartition,
)
from ottla.wire.frames import Request
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.support.broker_cluster import BrokerCluster
from tests.support.wire import FINE, Meddling, only


def run(cluster: BrokerCluster, main: Callable[[AsyncProducer], Any], **settings: Any) -> Any:
    async def with_producer(world: Any) -> Any:
        settings.setdefault("bootstrap_servers", cluster.bootstrap_servers)
        producer = AsyncProducer(world=world, **settings)
        try:
            return await main(producer)
        finally:
            await producer.close(0)

    return cluster.run(with_producer)


def refusal(request: ProduceRequest, error_code: int, **more: Any) -> ProduceResponse:
    """An answer that refuses every partition of the request."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [
                    PartitionProduceResponse(one.index, error_code, base_offset=-1, **more)
                    for one in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def refuse_first(count: int, error_code: int, **more: Any) -> Callable[[int, Request], Meddling]:
    """A meddler that refuses the first Produce requests."""
    left = count

    def meddle(broker: int, request: Request) -> Meddling:
        nonlocal left
        if isinstance(request.body, ProduceRequest) and left > 0:
            left -= 1
            return Meddling(answer=refusal(request.body, error_code, **more))
        return FINE

    return meddle


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def send_all(producer: AsyncProducer, topic: str, count: int) -> list[Delivery]:
    """Records 0, 1, 2..., each in a batch of its own where `batch.size` is small."""
    return [await producer.send(topic, value, partition=0) for value in numbered(count)]


# What passes by itself


@pytest.mark.parametrize("idempotence", [True, False])
def test_a_retriable_error_is_retried_until_it_passes(idempotence: bool) -> None:
    cluster = BrokerCluster(1)
    cluster.create_topic("a")
    cluster.meddle = refuse_first(3, NotEnoughReplicas.code)

    async def main(producer: AsyncProducer) -> None:
        told = await producer.send_and_wait("a", b"v", b"k")
        assert (told.topic, told.partition, told.offset) == ("a", 0, 0)
        assert (told.serialized_key_size, told.serialized_value_size) == (1, 1)
        assert producer.metrics().value("record-retry-total") == 3

    run(cluster, main, enable_idempotence=idempotence)
    assert cluster.values("a") == [[b"v"]]


def test_a_new_leader_told_with_the_refusal_is_tried_without_waiting() -> None:
    cluster = BrokerCluster(2)
    cluster.create_topic("a")

    async def main(producer: AsyncProducer) -> float:
        await producer.send_and_wait("a", b"0")
        await cluster.move_leader("a", 0, 2)
        asked = len(only(cluster.requests, "Metadata"))
        clock = producer._core.world.clock
        started = clock.monotonic_ms()
        await producer.send_and_wait("a", b"1")
        assert len(only(cluster.requests, "Metadata")) <= asked + 1
        return clock.monotonic_ms() - started

    # The backoff alone would be 5 s.
    assert run(cluster, main, retry_backoff_ms=5000, retry_backoff_max_ms=5000, linger_ms=0) < 1000
    assert cluster.values("a") == [[b"0", b"1"]]


@pytest.mark.parametrize("seed", range(8))
def test_lost_answers_and_moving_leaders_lose_nothing_and_repeat_nothing(seed: int) -> None:
    """Idempotence with five requests under way: each answer may be lost after the append, each leader may move."""
    cluster = BrokerCluster(seed)
    cluster.create_topic("a", 2)

    def meddle(broker: int, request: Request) -> Meddling:
        if isinstance(request.body, ProduceRequest):
            chance = cluster.chance.random()
            if chance < 0.1:
                return Meddling(loses_answer=True)
            if chance < 0.15:
                return Meddling(is_lost=True)
            if chance < 0.2:
                cluster.move_leader_soon("a", cluster.chance.randrange(2), cluster.chance.randint(1, 3))
            if chance < 0.25:
                return Meddling(answer=refusal(request.body, KafkaStorageError.code))
        return FINE

    async def main(producer: AsyncProducer) -> None:
        deliveries = []
        for number in range(200):
            deliveries.append(await producer.send("a", b"%d" % number, partition=number % 2))
            if number % 10 == 0:
                await producer._core.world.tasks.sleep_ms(cluster.chance.uniform(0, 20))
        await producer.flush(120)
        offsets = [(await delivery).offset for delivery in deliveries]
        assert offsets == [number // 2 for number in range(200)]

    cluster.meddle = meddle
    run(cluster, main, batch_size=0, request_timeout_ms=1000, delivery_timeout_ms=600_000)
    assert cluster.values("a") == [numbered(200)[0::2], numbered(200)[1::2]]


def test_without_idempotence_one_request_at_a_time_keeps_the_order() -> None:
    cluster = BrokerCluster(3)
    cluster.create_topic("a")
    cluster.meddle = refuse_first(4, NotEnoughReplicas.code)

    async def main(producer: AsyncProducer) -> None:
        await send_all(producer, "a", 20)
        await producer.flush()

    run(cluster, main, enable_idempotence=False, max_in_flight_requests_per_connection=1, batch_size=0)
    assert cluster.values("a") == [numbered(20)]


def test_a_broker_that_comes_back_gets_what_waited_for_it_once() -> None:
    cluster = BrokerCluster(4, broker_count=1)
    cluster.create_topic("a")

    async def main(producer: AsyncProducer) -> None:
        await producer.send_and_wait("a", b"0", partition=0)
        cluster.brokers[1].kill()
        deliveries = [await producer.send("a", value, partition=0) for value in numbered(10)[1:]]
        await producer._core.world.tasks.sleep_ms(5000)
        assert not any(delivery.done() for delivery in deliveries)
        await cluster.brokers[1].start()
        await producer.flush(60)

    run(cluster, main, batch_size=0, retries=3)
    assert cluster.values("a") == [numbered(10)]


def test_a_batch_that_was_not_answered_is_not_outrun_by_more_than_a_broker_remembers() -> None:
    """A broker hangs on to the answers to two batches that it has written, and another leads. Were the new one sent
    more than five batches before the first two are sent again, it would not know these any more."""
    cluster = BrokerCluster(24)
    cluster.create_topic("a")

    async def main(producer: AsyncProducer) -> None:
        world = producer._core.world
        await producer.send_and_wait("a", b"0", partition=0)
        deliveries = [await producer.send("a", b"%d" % number, partition=0) for number in (1, 2)]
        cluster.meddle = lambda broker, request: Meddling(delay_ms=100_000 * (request.header.request_api_key == 0))
        await world.tasks.sleep_ms(50)
        cluster.meddle = lambda broker, request: FINE
        await cluster.move_leader("a", 0, 2)
        producer._core.metadata.request_update()
        for number in range(3, 30):
            deliveries.append(await producer.send("a", b"%d" % number, partition=0))
            await world.tasks.sleep_ms(20)
        assert not deliveries[0].done()
        await producer.flush(60)
        assert [(await delivery).offset for delivery in deliveries] == list(range(1, 30))

    run(cluster, main, batch_size=0, linger_ms=0, request_timeout_ms=3000, delivery_timeout_ms=60_000)
    assert cluster.values("a") == [numbered(30)]


def test_the_first_batch_goes_alone_so_that_no_later_one_is_taken_for_the_first() -> None:
    """Kafka's producer sends five at once; where only the first is refused, as right after a topic was made, the broker
    begins with the second and refuses the first until `delivery.timeout.ms`."""
    cluster = BrokerCluster(25)
    cluster.create_topic("a", 3)
    cluster.meddle = refuse_first(1, KafkaStorageError.code)

    async def main(producer: AsyncProducer) -> None:
        await producer.partitions_for("a")
        deliveries = [await producer.send("a", b"%d" % number, partition=0) for number in range(20)]
        assert [(await delivery).offset for delivery in deliveries] == list(range(20))

    run(cluster, main, batch_size=0, linger_ms=0)
    assert cluster.values("a")[0] == numbered(20)


def test_records_without_a_key_avoid_a_broker_that_takes_nothing() -> None:
    """Of its leader alone: how quick the followers are is not what this is about."""
    cluster = BrokerCluster(27)
    cluster.create_topic("a", 3)

    def meddle(broker: int, request: Request) -> Meddling:
        return Meddling(is_lost=broker == 1 and isinstance(request.body, ProduceRequest))

    async def main(producer: AsyncProducer) -> list[int]:
        chosen = []
        for _ in range(600):
            delivery = await producer.send("a", bytes(100))
            chosen.append(delivery[0].partition.partition)
            await producer._core.world.tasks.sleep_ms(10)
        cluster.meddle = lambda broker, request: FINE
        return chosen

    cluster.meddle = meddle
    settings = {"batch.size": 250, "max.in.flight.requests.per.connection": 1, "request.timeout.ms": 60_000, "acks": 1}
    chosen = run(cluster, main, config=settings, partitioner_availability_timeout_ms=200, enable_idempotence=False)
    assert 0 in chosen[:100]
    assert set(chosen[100:]) == {1, 2}


# What does not


def test_an_error_that_no_retry_mends_fails_its_batch_alone() -> None:
    cluster = BrokerCluster(5)
    cluster.create_topic("a", 2)

    def meddle(broker: int, request: Request) -> Meddling:
        if isinstance(request.body, ProduceRequest) and request.body.topic_data[0].partition_data[0].index == 0:
            return Meddling(answer=refusal(request.body, TopicAuthorizationFailed.code))
        return FINE

    async def main(producer: AsyncProducer) -> None:
        refused = await producer.send("a", b"no", partition=0)
        written = await producer.send("a", b"yes", partition=1)
        with pytest.raises(TopicAuthorizationFailed, match=r"Not authorized to access topics: \[a\]") as caught:
            await refused
        assert not caught.value.retriable
        assert (await written).offset == 0
        assert refused.done()
        assert isinstance(refused.exception(), TopicAuthorizationFailed)
        # And the next record does not stumble over the gap in the sequence.
        cluster.meddle = lambda broker, request: FINE
        assert (await producer.send_and_wait("a", b"again", partition=0)).offset == 0

    cluster.meddle = meddle
    run(cluster, main)
    assert cluster.values("a") == [[b"again"], [b"yes"]]


def test_records_of_a_refused_batch_are_told_apart() -> None:
    cluster = BrokerCluster(6)
    cluster.create_topic("a")
    cluster.meddle = refuse_first(
        1, 87, record_errors=[BatchIndexAndErrorMessage(1, "has no key")], error_message="one is bad"
    )

    async def main(producer: AsyncProducer) -> list[str]:
        deliveries = await send_all(producer, "a", 3)
        await producer.flush()
        return [str(delivery.exception()) for delivery in deliveries]

    rest = "Failed to append record because it was part of a batch which had one or more invalid records"
    assert run(cluster, main) == [rest, "has no key", rest]


def test_retries_that_are_used_up_fail_the_record_with_the_last_error() -> None:
    cluster = BrokerCluster(7)
    cluster.create_topic("a")
    cluster.meddle = refuse_first(100, NotEnoughReplicas.code)

    async def main(producer: AsyncProducer) -> None:
        with pytest.raises(NotEnoughReplicas):
            await producer.send_and_wait("a", b"v")

    run(cluster, main, retries=2)
    assert len(only(cluster.requests, "Produce")) == 3


def test_a_record_is_given_up_after_the_delivery_time_out_and_not_much_later() -> None:
    cluster = BrokerCluster(8)
    cluster.create_topic("a")
    cluster.meddle = lambda broker, request: Meddling(is_lost=isinstance(request.body, ProduceRequest))

    async def main(producer: AsyncProducer) -> None:
        clock = producer._core.world.clock
        started = clock.monotonic_ms()
        with pytest.raises(DeliveryTimeout, match=r"Expiring 1 record\(s\) for a-0: \d+ ms has passed"):
            await producer.send_and_wait("a", b"v")
        assert 2000 <= clock.monotonic_ms() - started < 2500

    run(cluster, main, request_timeout_ms=700, delivery_timeout_ms=2000, linger_ms=0)


def test_after_an_expired_batch_the_partition_goes_on_without_a_gap_and_without_repeats() -> None:
    """The batch may have been written or not, so the producer takes a new epoch before it goes on (KIP-360)."""
    cluster = BrokerCluster(9)
    cluster.create_topic("a")
    is_broken = True

    def meddle(broker: int, request: Request) -> Meddling:
        return Meddling(loses_answer=is_broken and isinstance(request.body, ProduceRequest))

    async def main(producer: AsyncProducer) -> None:
        nonlocal is_broken
        deliveries = await send_all(producer, "a", 3)
        for delivery in deliveries:
            with pytest.raises(DeliveryTimeout):
                await delivery
        is_broken = False
        assert (await producer.send_and_wait("a", b"next", partition=0)).offset >= 0

    cluster.meddle = meddle
    run(cluster, main, batch_size=0, request_timeout_ms=500, delivery_timeout_ms=1000, linger_ms=0)
    written = cluster.values("a")[0]
    assert written[-1] == b"next"
    assert len(written) == len(set(written))


@pytest.mark.parametrize("error", [OutOfOrderSequenceNumber, UnknownProducerId])
def test_a_broker_that_has_forgotten_the_producer_is_met_with_a_new_epoch(error: type[Exception]) -> None:
    cluster = BrokerCluster(10)
    cluster.create_topic("a")

    async def main(producer: AsyncProducer) -> None:
        await producer.send_and_wait("a", b"0")
        manager = producer._core.manager
        assert manager is not None
        before = manager.producer
        cluster.meddle = refuse_first(1, error.code, log_start_offset=0)  # type: ignore[attr-defined]
        await producer.send_and_wait("a", b"1")
        assert manager.producer.producer_id == before.producer_id
        assert manager.producer.epoch == before.epoch + 1

    run(cluster, main)
    assert cluster.values("a") == [[b"0", b"1"]]


def test_a_batch_that_is_too_large_for_the_broker_is_split_until_it_fits() -> None:
    cluster = BrokerCluster(11)
    cluster.create_topic("a")

    def meddle(broker: int, request: Request) -> Meddling:
        if isinstance(request.body, ProduceRequest):
            records = request.body.topic_data[0].partition_data[0].records
            if records is not None and len(records) > 400:
                return Meddling(answer=refusal(request.body, MessageTooLarge.code))
        return FINE

    async def main(producer: AsyncProducer) -> None:
        told: list[int] = []
        deliveries = [
            await producer.send(
                "a",
                b"%03d" % number + bytes(50),
                on_delivery=lambda metadata, error: told.append(metadata.offset),  # type: ignore[union-attr]
            )
            for number in range(40)
        ]
        await producer.flush()
        assert [delivery.result().offset for delivery in deliveries] == list(range(40))
        assert told == list(range(40))
        assert producer.metrics().value("batch-split-total") >= 2
        assert producer.metrics().value("buffer-available-bytes") == producer.metrics().value("buffer-total-bytes")
        # The sequence goes on where the parts ended.
        assert (await producer.send_and_wait("a", b"next")).offset == 40

    cluster.meddle = meddle
    run(cluster, main)
    assert [value[:3] for value in cluster.values("a")[0][:40] if value] == [b"%03d" % number for number in range(40)]


def test_the_parts_of_a_split_batch_keep_its_time_to_be_delivered() -> None:
    """The batch is refused as too large after five seconds, while a younger one waits already; then nothing is answered
    any more. The parts expire ten seconds after the batch was begun, not with the younger one."""
    cluster = BrokerCluster(28)
    cluster.create_topic("a")
    is_split = False

    def meddle(broker: int, request: Request) -> Meddling:
        nonlocal is_split
        if not isinstance(request.body, ProduceRequest):
            return FINE
        if is_split:
            return Meddling(is_lost=True)
        is_split = True
        return Meddling(answer=refusal(request.body, MessageTooLarge.code), delay_ms=5000)

    async def main(producer: AsyncProducer) -> None:
        tasks, now_ms = producer._core.world.tasks, producer._core.world.clock.monotonic_ms
        await producer.partitions_for("a")
        begun_ms = now_ms()
        failed_ms: dict[str, int] = {}
        for name in ("first", "second"):
            told = await producer.send("a", name.encode())
            told.add_done_callback(lambda _, name=name: failed_ms.update({name: now_ms() - begun_ms}))  # type: ignore[misc]
        await tasks.sleep_ms(4000)
        told = await producer.send("a", b"younger")
        told.add_done_callback(lambda _: failed_ms.update({"younger": now_ms() - begun_ms}))
        await producer.flush()
        assert isinstance(told.exception(), DeliveryTimeout)
        assert producer.metrics().value("batch-split-total") == 1
        assert 10_000 <= failed_ms["first"] <= 10_100
        assert 10_000 <= failed_ms["second"] <= 10_100
        assert 14_000 <= failed_ms["younger"] <= 14_100

    cluster.meddle = meddle
    run(cluster, main, linger_ms=5, request_timeout_ms=8000, delivery_timeout_ms=10_000)


def test_a_record_that_is_too_large_fails_without_the_small_one_beside_it() -> None:
    """Splitting by size alone would put the two into one batch again, and again."""
    cluster = BrokerCluster(26)
    cluster.create_topic("a")

    def meddle(broker: int, request: Request) -> Meddling:
        if isinstance(request.body, ProduceRequest):
            records = request.body.topic_data[0].partition_data[0].records
            if records is not None and len(records) > 1000:
                return Meddling(answer=refusal(request.body, MessageTooLarge.code))
        return FINE

    async def main(producer: AsyncProducer) -> None:
        small = await producer.send("a", b"small")
        large = await producer.send("a", bytes(3000))
        with pytest.raises(MessageTooLarge):
            await large
        assert (await small).offset == 0
        assert producer.metrics().value("batch-split-total") <= 2

    cluster.meddle = meddle
    run(cluster, main)
    assert cluster.values("a") == [[b"small"]]


def test_one_record_that_is_too_large_for_the_broker_fails() -> None:
    cluster = BrokerCluster(12)
    cluster.create_topic("a")
    cluster.meddle = refuse_first(1, MessageTooLarge.code)

    async def main(producer: AsyncProducer) -> None:
        with pytest.raises(MessageTooLarge):
            await producer.send_and_wait("a", b"v")

    run(cluster, main)


# Waiting


def test_a_topic_that_does_not_exist_is_waited_for_and_then_given_up() -> None:
    cluster = BrokerCluster(13)

    async def main(producer: AsyncProducer) -> None:
        with pytest.raises(KafkaTimeout, match="Topic nowhere not present in metadata after 1500 ms"):
            await producer.send("nowhere", b"v")

    run(cluster, main, max_block_ms=1500)


def test_a_partition_that_does_not_exist_is_waited_for_and_then_given_up() -> None:
    cluster = BrokerCluster(14)
    cluster.create_topic("a", 2)

    async def main(producer: AsyncProducer) -> None:
        await producer.send_and_wait("a", b"v", partition=1)
        with pytest.raises(KafkaTimeout, match="Partition 2 of a not present in metadata after 1500 ms"):
            await producer.send("a", b"v", partition=2)

    run(cluster, main, max_block_ms=1500)


def test_a_full_buffer_holds_senders_back_and_serves_them_in_turn() -> None:
    cluster = BrokerCluster(15)
    cluster.create_topic("a")
    cluster.meddle = lambda broker, request: Meddling(delay_ms=50 if isinstance(request.body, ProduceRequest) else 0)

    async def main(producer: AsyncProducer) -> None:
        deliveries = [await producer.send("a", b"%02d" % number + bytes(900)) for number in range(30)]
        assert producer.metrics().value("buffer-available-bytes") < 1024
        await producer.flush()
        assert all(delivery.done() for delivery in deliveries)
        assert producer.metrics().value("buffer-available-bytes") == 4096

    run(cluster, main, buffer_memory=4096, batch_size=1024, linger_ms=1000)
    assert [value[:2] for value in cluster.values("a")[0] if value] == [b"%02d" % number for number in range(30)]


def test_a_buffer_that_stays_full_is_an_error_after_the_time_to_block() -> None:
    cluster = BrokerCluster(16)
    cluster.create_topic("a")
    cluster.meddle = lambda broker, request: Meddling(is_lost=isinstance(request.body, ProduceRequest))

    async def main(producer: AsyncProducer) -> None:
        clock = producer._core.world.clock
        await producer.partitions_for("a")
        for _ in range(4):
            await producer.send("a", bytes(900))
        started = clock.monotonic_ms()
        with pytest.raises(BufferExhausted, match="within the configured max blocking time 700 ms"):
            await producer.send("a", bytes(900))
        assert 700 <= clock.monotonic_ms() - started < 900
        assert producer.metrics().value("waiting-threads") == 0

    run(cluster, main, buffer_memory=4096, batch_size=1024, max_block_ms=700)


def test_records_linger_together_and_a_flush_does_not_wait_for_them() -> None:
    cluster = BrokerCluster(17)
    cluster.create_topic("a")

    async def main(producer: AsyncProducer) -> None:
        world = producer._core.world
        await producer.send_and_wait("a", b"first")
        before = len(only(cluster.requests, "Produce"))
        for number in range(10):
            await producer.send("a", b"%d" % number)
            await world.tasks.sleep_ms(10)
        assert len(only(cluster.requests, "Produce")) == before
        await world.tasks.sleep_ms(1000)
        assert len(only(cluster.requests, "Produce")) == before + 1
        await producer.send("a", b"x")
        started = world.clock.monotonic_ms()
        await producer.flush()
        assert world.clock.monotonic_ms() - started < 500

    run(cluster, main, linger_ms=1000)


def test_closing_sends_what_is_left_and_closing_at_once_fails_it() -> None:
    cluster = BrokerCluster(18)
    cluster.create_topic("a")

    async def main(producer: AsyncProducer) -> None:
        await producer.partitions_for("a")
        sent = await producer.send("a", b"sent")
        await producer.close()
        assert sent.result().offset == 0
        with pytest.raises(ClientClosed):
            await producer.send("a", b"late")
        await producer.close()

    run(cluster, main, linger_ms=60_000)
    assert cluster.values("a") == [[b"sent"]]

    cluster = BrokerCluster(19)
    cluster.create_topic("a")
    cluster.meddle = lambda broker, request: Meddling(is_lost=isinstance(request.body, ProduceRequest))

    async def hasty(producer: AsyncProducer) -> None:
        await producer.partitions_for("a")
        lost = await producer.send("a", b"lost")
        clock = producer._core.world.clock
        started = clock.monotonic_ms()
        await producer.close(1.5)
        assert 1500 <= clock.monotonic_ms() - started < 2000
        assert isinstance(lost.exception(), ClientClosed)

    run(cluster, hasty)


def test_acks_0_is_told_nothing_and_still_writes() -> None:
    cluster = BrokerCluster(20)
    cluster.create_topic("a")

    async def main(producer: AsyncProducer) -> None:
        assert (await producer.send_and_wait("a", b"v")).offset == -1
        await producer._core.world.tasks.sleep_ms(100)

    run(cluster, main, acks=0)
    assert cluster.values("a") == [[b"v"]]


def test_an_old_broker_is_spoken_to_by_name_and_in_its_version() -> None:
    cluster = BrokerCluster(21, versions={"Produce": (3, 7), "Metadata": (1, 7), "InitProducerId": (0, 1)})
    cluster.create_topic("a")

    async def main(producer: AsyncProducer) -> None:
        await producer.send_and_wait("a", b"v")

    run(cluster, main)
    assert {version for _, version in only(cluster.requests, "Produce")} == {7}
    assert cluster.values("a") == [[b"v"]]


def test_a_callback_that_raises_harms_nobody() -> None:
    cluster = BrokerCluster(22)
    cluster.create_topic("a")

    async def main(producer: AsyncProducer) -> None:
        def broken(metadata: object, error: object) -> None:
            raise RuntimeError("mine")

        await producer.send("a", b"0", on_delivery=broken)
        assert (await producer.send_and_wait("a", b"1")).offset == 1

    run(cluster, main)


def test_a_connection_that_breaks_fails_with_a_network_error_when_nothing_may_be_retried() -> None:
    cluster = BrokerCluster(23)
    cluster.create_topic("a")
    cluster.meddle = lambda broker, request: Meddling(loses_answer=isinstance(request.body, ProduceRequest))

    async def main(producer: AsyncProducer) -> None:
        with pytest.raises(NetworkException):
            await producer.send_and_wait("a", b"v")

    run(cluster, main, retries=0)


def test_brokers_that_metadata_names_no_more_are_looked_for_once_in_a_backoff() -> None:
    """Each look set a timer of its own for each of them, so that with two such brokers their number doubled."""
    cluster = BrokerCluster(108)
    cluster.create_topic("a", 3, copies=1)

    def forget(found: MetadataResponse) -> None:
        found.brokers = found.brokers[:1]
        for topic in found.topics:
            topic.error_code, topic.partitions = UnknownTopicOrPartition.code, []

    def meddle(broker: int, request: Request) -> Meddling:
        return Meddling(change=forget) if isinstance(request.body, MetadataRequest) else FINE

    async def main(producer: AsyncProducer) -> None:
        world, sender = producer._core.world, producer._core.sender
        deliveries = [await producer.send("a", b"%d" % number, partition=number) for number in range(3)]
        cluster.meddle = meddle
        producer._core.metadata.request_update()
        await world.tasks.sleep_ms(400)
        for node_id in (1, 2, 3):
            sender._network.disconnect(node_id, NetworkException("as after a restart"))
        runs = 0
        run_once = sender._run_once

        def count() -> None:
            nonlocal runs
            runs += 1
            run_once()

        sender._run_once = count  # type: ignore[method-assign]
        await world.tasks.sleep_ms(3_000)
        assert 10 < runs < 200
        cluster.meddle = lambda broker, request: FINE
        assert [(await delivery).offset for delivery in deliveries] == [0, 0, 0]

    run(cluster, main, linger_ms=500, retry_backoff_ms=100, retry_backoff_max_ms=100)
