"""What the handlers of the group APIs share: who asks, which group ids are valid, one shard's turn for many groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol, TypeVar

from ottla.coordinator.group import Caller, GroupShard
from ottla.errors import InvalidGroupId, KafkaError, UnknownTopicOrPartition
from ottla.machine import Result
from ottla.server.context import BrokerContext
from ottla.server.promises import gathered, mapped
from ottla.world import Promise

T = TypeVar("T")


class _Topic(Protocol):
    """A topic of a response."""

    name: str
    partitions: list[Any]


Topic = TypeVar("Topic", bound=_Topic)


def caller_of(context: BrokerContext) -> Caller:
    """The client as its group remembers it."""
    return Caller(context.client_id or "", java_address(context.peer.host), context.version)


def java_address(host: str) -> str:
    """An address as Java prints it: a slash before it, and IPv6 without abbreviations."""
    if ":" not in host:
        return f"/{host}"
    from ipaddress import IPv6Address  # few clients need it

    address = IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    return "/" + ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))


def check_group_id(group_id: str) -> None:
    """All but the offsets of old standalone consumers belong to a group with a name."""
    if not group_id:
        raise InvalidGroupId


UNKNOWN_PARTITION = UnknownTopicOrPartition.code


def merged_topics(
    refused: list[Topic], decided: list[Topic], key: Callable[[Topic], Hashable] = lambda topic: topic.name
) -> list[Topic]:
    """One entry a topic, with the partitions that were refused before those that were decided on."""
    topics = {key(topic): topic for topic in refused}
    for topic in decided:
        before = topics.setdefault(key(topic), topic)
        if before is not topic:
            before.partitions += topic.partitions
    return list(topics.values())


def for_groups(
    context: BrokerContext,
    name: str,
    group_ids: Iterable[str],
    decide: Callable[[GroupShard, list[str]], Result[list[T]]],
    failed: Callable[[str, KafkaError], T],
) -> Promise[list[T]]:
    """Run a decision about many groups, one for the groups of each shard; a shard that fails, fails for its groups."""
    groups = context.broker.groups
    tasks = context.node.world.tasks
    by_index: dict[int, list[str]] = {}
    for group_id in group_ids:
        by_index.setdefault(groups.index_of(group_id), []).append(group_id)
    answers = [
        _settled(context, groups.runtime.write(index, name, _deciding(decide, ids)), ids, failed)
        for index, ids in by_index.items()
    ]
    return mapped(tasks, gathered(tasks, answers), lambda lists: [one for some in lists for one in some])


def _deciding(
    decide: Callable[[GroupShard, list[str]], Result[list[T]]], ids: list[str]
) -> Callable[[GroupShard], Result[list[T]]]:
    return lambda shard: decide(shard, ids)


def _settled(
    context: BrokerContext, promise: Promise[list[T]], ids: list[str], failed: Callable[[str, KafkaError], T]
) -> Promise[list[T]]:
    return caught(context, promise, lambda error: [failed(group_id, error) for group_id in ids])


def caught(context: BrokerContext, promise: Promise[T], failed: Callable[[KafkaError], T]) -> Promise[T]:
    """The promise's value, or what `failed` makes of its error; it may raise it again."""
    answer: Promise[T] = context.node.world.tasks.promise()

    def settle(done: Promise[T]) -> None:
        try:
            try:
                answer.set_result(done.result())
            except KafkaError as error:
                answer.set_result(failed(error))
        except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
            answer.set_exception(error)

    if promise.done():
        settle(promise)
    else:
        promise.add_done_callback(settle)
    return answer
