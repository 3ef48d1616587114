"""The faces without a broker: arguments that are refused, and events when the caller is stopped."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from ottla.client import AsyncConsumer, Consumer, RebalanceListener, SubscriptionPattern
from ottla.client.consumer.face import chosen, listener_of
from ottla.client.errors import ClientClosed, IllegalState
from ottla.client.group import RebalanceEvent, RebalanceKind
from ottla.errors import InvalidConfig
from ottla.types import TopicPartition

NOBODY = "127.0.0.1:1"
A0 = TopicPartition("a", 0)


def test_arguments_that_cannot_be_meant_are_refused() -> None:
    with Consumer(bootstrap_servers=NOBODY) as consumer:
        with pytest.raises(IllegalState, match="not subscribed"):
            consumer.poll(0)
        consumer.assign([A0])
        with pytest.raises(ValueError, match="negative"):
            consumer.poll(-1)
        with pytest.raises(ValueError, match="at least one"):
            consumer.poll(0, max_records=0)
        with pytest.raises(ValueError, match="empty topic"):
            consumer.assign([("", 0)])
        assert consumer.poll(0) == []
    with pytest.raises(InvalidConfig, match=r"max\.poll\.records"):
        Consumer(bootstrap_servers=NOBODY, max_poll_record=3)


def test_every_call_of_a_closed_consumer_says_so() -> None:
    consumer = Consumer(bootstrap_servers=NOBODY, group_id="g")
    consumer.close(0.1)
    consumer.close()
    for call in (
        lambda: consumer.poll(0),
        lambda: consumer.assign([A0]),
        lambda: consumer.subscribe("a"),
        lambda: consumer.seek(A0, 0),
        consumer.seek_to_end,
        lambda: consumer.commit({A0: 1}),
        lambda: consumer.position(A0),
        lambda: consumer.pause([A0]),
        consumer.list_topics,
        consumer.unsubscribe,
    ):
        with pytest.raises(ClientClosed):
            call()
    consumer.wakeup()


def test_what_to_subscribe_to_may_be_said_in_several_ways() -> None:
    assert chosen("a") == ["a"]
    assert chosen(("a", "b")) == ["a", "b"]
    pattern = re.compile("a.*")
    assert chosen(pattern) is pattern
    server = SubscriptionPattern("a.*")
    assert chosen(server) is server
    for wrong in ([""], ["a", "  "], [None]):
        with pytest.raises(ValueError, match="empty topic"):
            chosen(wrong)  # type: ignore[arg-type]


def test_a_listener_of_single_functions_takes_lost_for_revoked() -> None:
    told: list[Any] = []
    listener = listener_of(None, None, told.append, None)
    assert listener is not None
    listener.on_lost([A0])
    listener.on_assigned([A0])
    assert told == [[A0]]
    with pytest.raises(ValueError, match="not both"):
        listener_of(RebalanceListener(), told.append, None, None)
    assert listener_of(None, None, None, None) is None


def test_an_event_whose_poll_is_cancelled_before_the_listener_waits_for_the_next_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The group waits for it to be carried out: an event that is gone would keep the member waiting for ever."""

    async def main() -> None:
        async with AsyncConsumer(bootstrap_servers=NOBODY, group_id="g") as consumer:
            told: list[list[TopicPartition]] = []
            await consumer.subscribe("a", on_assigned=told.append)
            core = consumer._core
            assert core.group is not None
            is_slow = True

            async def prepare(event: RebalanceEvent, timeout_ms: float | None = None) -> None:
                if is_slow:
                    await asyncio.sleep(30)

            monkeypatch.setattr(core.group, "prepare", prepare)
            done = asyncio.get_running_loop().create_future()
            core.group.events.append(RebalanceEvent(RebalanceKind.ASSIGNED, (A0,), (A0,), done))
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(consumer.poll(10), 0.05)
            assert (told, done.done(), len(core.group.events)) == ([], False, 1)
            is_slow = False
            assert await consumer.poll(0) == []
            assert told == [[A0]]
            assert done.done()
            assert consumer.assignment() == {A0}
            core.group.begin_leave()

    asyncio.run(main())


def test_what_a_call_raises_reaches_its_caller_whatever_it_is() -> None:
    """An error that is none of Kafka's left the caller waiting for ever."""

    async def main() -> None:
        async with AsyncConsumer(bootstrap_servers=NOBODY) as consumer:

            async def fails() -> None:
                raise LookupError("a defect")

            with pytest.raises(LookupError, match="a defect"):
                await asyncio.wait_for(consumer._core.interruptible(fails()), 5)

    asyncio.run(main())


def test_who_closes_right_after_an_assignment_is_told_that_it_ends() -> None:
    """The group hears a moment later that an event was carried out; a close in that moment forgot the listener, and
    with it the last commit."""

    async def main() -> list[tuple[str, list[TopicPartition]]]:
        told: list[tuple[str, list[TopicPartition]]] = []
        async with AsyncConsumer(bootstrap_servers=NOBODY, group_id="g") as consumer:
            await consumer.subscribe(
                "a",
                on_assigned=lambda partitions: told.append(("assigned", partitions)),
                on_revoked=lambda partitions: told.append(("revoked", partitions)),
            )
            group = consumer._core.group
            assert group is not None
            done = asyncio.get_running_loop().create_future()
            group.events.append(RebalanceEvent(RebalanceKind.ASSIGNED, (A0,), (A0,), done))
            await consumer.poll(0)
            await consumer.close(0.1)
        return told

    assert asyncio.run(main()) == [("assigned", [A0]), ("revoked", [A0])]
