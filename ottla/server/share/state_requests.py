"""What the requests about stored share state have in common: a question for each partition, and an answer for each.

They come from other brokers: the leaders of share partitions, and the coordinators of share groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ottla.coordinator.share import ShareCoordinator, SharePartitionKey
from ottla.errors import KafkaError
from ottla.server.context import BrokerContext
from ottla.server.promises import gathered, mapped, recovered
from ottla.types import Uuid
from ottla.world import Promise

P = TypeVar("P", bound="Asked")
R = TypeVar("R")
T = TypeVar("T")


class Asked(Protocol):
    partition: int


def each_partition(
    context: BrokerContext,
    group_id: str,
    topics: Sequence[tuple[Uuid, Sequence[P]]],
    ask: Callable[[ShareCoordinator, SharePartitionKey, P], Promise[T]],
    tell: Callable[[int, T], R],
    fail: Callable[[int, int, str], R],
) -> Promise[list[tuple[Uuid, list[R]]]]:
    """Ask about each partition; `tell` makes its answer, `fail` that of an error, from its code and message.

    A request without a group, or with a topic that has no partitions, is answered with nothing at all.
    """
    tasks = context.node.world.tasks
    if not group_id or not all(partitions for _, partitions in topics):
        topics = []
    coordinator = context.broker.share.coordinator

    def one(topic_id: Uuid, asked: P) -> Promise[R]:
        key = SharePartitionKey(group_id, topic_id, asked.partition)

        def failed(error: KafkaError) -> R:
            return fail(asked.partition, error.code, error.message)

        return recovered(
            tasks,
            lambda: mapped(tasks, ask(coordinator, key, asked), lambda answer: tell(asked.partition, answer)),
            failed,
        )

    answers = gathered(tasks, [one(topic_id, asked) for topic_id, partitions in topics for asked in partitions])

    def group(results: list[R]) -> list[tuple[Uuid, list[R]]]:
        left = iter(results)
        return [(topic_id, [next(left) for _ in partitions]) for topic_id, partitions in topics]

    return mapped(tasks, answers, group)
