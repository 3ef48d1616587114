"""How a call is carried out: place the keys, ask each node for its keys at once, settle what is answered, try the rest.

A call is what is specific (a route, a request for some keys, how to read the answer); everything else is here, once:
the call's deadline, the bound on attempts, the backoff, the splitting by node. Promises: every outcome is settled by
the deadline, whatever the brokers do; a slow or lost broker holds up only its own keys; errors that pass are tried
again with a growing backoff, others are the key's outcome at once; a time-out says what it waited for last.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.client.admin.nodes import ClusterNodes
from ottla.client.admin.outcome import Outcomes
from ottla.client.admin.routes import AnyNode, Controller, CoordinatorRoute, Leaders, NamedNode, Route
from ottla.client.config import AdminConfig
from ottla.client.errors import ClientClosed, KafkaTimeout, as_kafka_error
from ottla.client.network import CoordinatorKind, Deadline, NetworkClient, Request
from ottla.errors import (
    KafkaError,
    RebalanceInProgress,
    UnknownServerError,
    UnstableOffsetCommit,
    error_class,
)
from ottla.types import TopicPartition
from ottla.world import ClientWorld, Promise

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = TypeVar("P", bound=Hashable)

Parts = Mapping[P, V | KafkaError]
"""What a broker answers for the parts of one thing, such as the partitions of a group."""


class Call(NamedTuple, Generic[K, V]):
    """What one kind of call is made of."""

    what: str
    """Its name, for messages."""
    route: Route[K]
    build: Callable[[int, list[K]], Request]
    """The request to a node for these keys."""
    read: Callable[[int, list[K], Any], Iterable[tuple[K, V | KafkaError]]]
    """The answers in a node's response. A `KafkaError` raised is the answer for all keys."""
    one_by_one: bool = False
    """The request has room for one key only."""


def failure(code: int, message: str | None = None) -> KafkaError | None:
    """The error of a code in a response; None for none."""
    if not code:
        return None
    return error_class(code)(message) if message else error_class(code)()


def check(code: int, message: str | None = None) -> None:
    """Raise the error of a code in a response."""
    error = failure(code, message)
    if error is not None:
        raise error


class Driver:
    """What every call of one admin is carried out with."""

    def __init__(self, network: NetworkClient, config: AdminConfig) -> None:
        self.network = network
        self.config = config
        self.world: ClientWorld = network.world
        self.nodes = ClusterNodes(network, config)
        self.leaders = Leaders(network, self.nodes)
        # A transaction or a rebalance that is under way ends by itself, and offsets can then be told or set.
        self.groups = CoordinatorRoute(network, CoordinatorKind.GROUP, (UnstableOffsetCommit, RebalanceInProgress))
        self.transactions = CoordinatorRoute(network, CoordinatorKind.TRANSACTION)

    # Routes

    def any_node(self, *retried: type[KafkaError]) -> AnyNode[Any]:
        return AnyNode(self.network, retried)

    def any_or_active(self) -> Route[Any]:
        """What any broker knows or forwards, while among controllers only the active one answers."""
        return self.controller() if self.nodes.speaks_to_controllers else self.any_node()

    def controller(self) -> Controller[Any]:
        return Controller(self.nodes)

    def node_of(self, node_of: Callable[[K], int | None], *retried: type[KafkaError]) -> NamedNode[K]:
        return NamedNode(self.network, self.nodes, node_of, retried)

    # Calling

    def deadline(self, timeout: float | None) -> Deadline:
        """The end of a call that was given `timeout` seconds, or the default when it was given none."""
        return Deadline(self.world, self.config.default_api_timeout_ms if timeout is None else timeout * 1000)

    def request_ms(self, deadline: Deadline) -> int:
        """How long a broker may take over a request that says so: no longer than its answer is waited for."""
        return int(deadline.at_most(self.config.request_timeout_ms))

    def start(
        self, what: str, keys: Iterable[K], work: Callable[[Outcomes[K, V]], Coroutine[Any, Any, None]]
    ) -> Outcomes[K, V]:
        """Begin what will settle the outcomes of `keys`, and return them at once."""
        outcomes: Outcomes[K, V] = Outcomes(self.world.tasks, what, keys)

        async def run() -> None:
            try:
                await work(outcomes)
                assert outcomes.done, f"{what} leaves {outcomes.unsettled()} open"
            except Exception as error:  # noqa: BLE001  it is the caller's
                outcomes.settle_rest(as_kafka_error(error, f"{what} failed"))
            except BaseException:  # called off, because the loop ends
                outcomes.settle_rest(ClientClosed(f"The admin was closed before {what} was done"))
                raise

        if len(outcomes):
            self.world.tasks.spawn(run(), f"admin {what}")
        return outcomes

    def drive(self, call: Call[K, V], keys: Iterable[K], timeout: float | None) -> Outcomes[K, V]:
        """Begin a call for `keys`, and return their outcomes at once."""
        deadline = self.deadline(timeout)
        return self.start(call.what, keys, lambda outcomes: self.pursue(call, outcomes, deadline))

    async def one(
        self,
        what: str,
        route: Route[None],
        request: Request,
        read: Callable[[Any], V],
        deadline: Deadline,
    ) -> V:
        """A call about one thing: its value, or its error raised."""

        def answer(node_id: int, keys: list[None], response: Any) -> Iterable[tuple[None, V | KafkaError]]:
            yield None, read(response)

        outcomes: Outcomes[None, V] = Outcomes(self.world.tasks, what, [None])
        await self.pursue(Call(what, route, lambda node_id, keys: request, answer), outcomes, deadline)
        return outcomes[None].result()

    async def each(self, call: Call[K, V], keys: Iterable[K], deadline: Deadline) -> Outcomes[K, V]:
        """A call as part of another: the outcomes, all settled."""
        outcomes: Outcomes[K, V] = Outcomes(self.world.tasks, call.what, keys)
        await self.pursue(call, outcomes, deadline)
        return outcomes

    def parts(self, call: Call[K, Parts[P, V]], whole: K, parts: Iterable[P], deadline: Deadline) -> Outcomes[P, V]:
        """Begin a call about one thing whose answer tells of its parts, and return the outcomes of those at once."""

        async def work(outcomes: Outcomes[P, V]) -> None:
            answers = (await self.each(call, [whole], deadline))[whole].result()
            for part in outcomes:
                missing = UnknownServerError(f"The broker's answer says nothing of {part}")
                outcomes.settle(part, answers.get(part, missing))

        return self.start(call.what, parts, work)

    async def pursue(
        self, call: Call[K, V], outcomes: Outcomes[K, V], deadline: Deadline, keys: list[K] | None = None
    ) -> None:
        """Settle every outcome that is open, or those of `keys`."""
        if keys is None:
            keys = outcomes.unsettled()
        if keys:
            await _Pursuit(self, call, outcomes, deadline).pursue(keys, 0)

    async def brokers(self, deadline: Deadline) -> list[int]:
        """The ids of all live brokers (or controllers), waiting for the cluster to be reached."""
        failures = 0
        while True:
            try:
                return await self.nodes.all(deadline)
            except KafkaError as error:
                delay_ms = self.network.retry_backoff.delay_ms(failures)
                left_ms = deadline.left_ms
                if not error.retriable or failures >= self.config.retries:
                    raise
                if left_ms is not None and left_ms <= delay_ms:
                    limit = f"within {deadline.timeout_ms:.0f} ms"
                    raise KafkaTimeout(f"The cluster's nodes were not learned {limit}: {error}") from error
            failures += 1
            await self.world.tasks.sleep_ms(delay_ms)

    async def together(self, what: str, works: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Run them at the same time. When all have ended, the first error is raised."""
        tasks = self.world.tasks
        done: Promise[None] = tasks.promise()
        failed: list[BaseException] = []
        left = len(works)

        async def run(work: Awaitable[None]) -> None:
            nonlocal left
            try:
                await work
            except BaseException as error:  # noqa: BLE001  raised below, where it is waited for
                failed.append(error)
            left -= 1
            if not left and not done.done():
                done.set_result(None)

        running = [tasks.spawn(run(work), f"admin {what}") for work in works]
        try:
            await done
        except BaseException:
            for task in running:
                task.cancel()
            raise
        if failed:
            raise failed[0]


class _Pursuit(Generic[K, V]):
    """One call under way."""

    def __init__(self, driver: Driver, call: Call[K, V], outcomes: Outcomes[K, V], deadline: Deadline) -> None:
        self._driver = driver
        self._call = call
        self._outcomes = outcomes
        self._deadline = deadline

    async def pursue(self, keys: list[K], failures: int) -> None:
        """Until each of the keys is settled."""
        while keys:
            batches, again = await self._place(keys)
            if len(batches) + bool(again) > 1:
                # From here on each node's keys go on by themselves, so that a slow node holds up no others.
                works = [self._pursue_at(node_id, batch, failures) for node_id, batch in batches]
                if again:
                    works.append(self._pursue_after(again, failures))
                await self._driver.together(self._call.what, works)
                return
            if batches:
                again = await self._ask(*batches[0])
            keys = await self._wait(again, failures)
            failures += 1

    async def _pursue_at(self, node_id: int, keys: list[K], failures: int) -> None:
        await self._pursue_after(await self._ask(node_id, keys), failures)

    async def _pursue_after(self, again: dict[K, KafkaError], failures: int) -> None:
        await self.pursue(await self._wait(again, failures), failures + 1)

    async def _place(self, keys: list[K]) -> tuple[list[tuple[int, list[K]]], dict[K, KafkaError]]:
        """The keys by node, and those that could not be placed for now."""
        try:
            places = await self._call.route.find(keys, self._deadline)
        except Exception as error:  # noqa: BLE001  it is the keys'
            failed = as_kafka_error(error, f"{self._call.what} could not be placed")
            return [], self._sorted_out(dict.fromkeys(keys, failed))
        again = self._sorted_out(places.missing)
        if self._call.one_by_one:
            return [(node_id, [key]) for key, node_id in places.nodes.items()], again
        batches: dict[int, list[K]] = {}
        for key, node_id in places.nodes.items():
            batches.setdefault(node_id, []).append(key)
        return list(batches.items()), again

    async def _ask(self, node_id: int, keys: list[K]) -> dict[K, KafkaError]:
        """Settle what the node answers; the keys to ask for again, with why."""
        driver, call = self._driver, self._call
        try:
            response = await driver.network.send(
                node_id,
                call.build(node_id, keys),
                timeout_ms=self._deadline.at_most(driver.config.request_timeout_ms),
            )
        except Exception as error:  # noqa: BLE001  it is the keys'
            driver.nodes.stale()
            failed = as_kafka_error(error, f"The {call.what} request could not be built")
            return self._sorted_out(dict.fromkeys(keys, failed))
        try:
            answers = dict(call.read(node_id, keys, response))
        except Exception as error:  # noqa: BLE001  it is the keys'
            answers = dict.fromkeys(keys, as_kafka_error(error, f"The response to {call.what} could not be read"))
        again = {}
        for key in keys:
            answer = answers.get(key, _MISSING)
            if answer is _MISSING:
                self._outcomes.settle(key, UnknownServerError(f"The broker's answer says nothing of {key}"))
            elif isinstance(answer, KafkaError) and call.route.is_retried(answer):
                again[key] = answer
            else:
                self._outcomes.settle(key, answer)
        return again

    def _sorted_out(self, failed: dict[K, KafkaError]) -> dict[K, KafkaError]:
        """Settle those whose error does not pass by itself; the others."""
        again = {}
        for key, error in failed.items():
            if (error.retriable or self._call.route.is_retried(error)) and not isinstance(error, ClientClosed):
                again[key] = error
            else:
                self._outcomes.settle(key, error)
        return again

    async def _wait(self, again: dict[K, KafkaError], failures: int) -> list[K]:
        """Wait before the keys are tried again; none when there is no time or no attempt left."""
        if not again:
            return []
        self._call.route.forget(again)
        delay_ms = self._driver.network.retry_backoff.delay_ms(failures)
        left_ms = self._deadline.left_ms
        if (left_ms is not None and left_ms <= delay_ms) or failures >= self._driver.config.retries:
            for key, error in again.items():
                self._outcomes.settle(key, self._given_up(error, failures))
            return []
        await self._driver.world.tasks.sleep_ms(delay_ms)
        return list(again)

    def _given_up(self, error: KafkaError, failures: int) -> KafkaError:
        attempts = f"{failures + 1} attempt{'s' if failures else ''}"
        timeout_ms = self._deadline.timeout_ms
        limit = "" if timeout_ms is None else f" within {timeout_ms:.0f} ms"
        timed_out = KafkaTimeout(f"{self._call.what} was not done{limit} ({attempts}). The last error: {error}")
        timed_out.__cause__ = error
        return timed_out


_MISSING: Any = object()


def names_of(given: Iterable[str]) -> list[str]:
    """The names; a text alone is one name, and not the letters it is made of."""
    return [given] if isinstance(given, str) else list(given)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition indexes by topic, as requests have them."""
    topics: dict[str, list[int]] = {}
    for one in partitions:
        topics.setdefault(one.topic, []).append(one.partition)
    return topics
