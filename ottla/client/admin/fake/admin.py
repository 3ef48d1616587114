"""`FakeAdmin` and `AsyncFakeAdmin`: the admins without a broker, for the tests of code that uses one.

Only the connections are not real: requests go to a `FakeCluster`, which answers at once. Every call of `Admin` exists;
those that the fake cluster does not play raise `UnsupportedVersion`. No loop, no thread, no port, no waiting.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.blocking import Admin
from ottla.client.admin.fake.cluster import FakeCluster
from ottla.client.admin.fake.world import fake_world, run
from ottla.client.admin.network import AdminNetwork
from ottla.client.config import AdminConfig
from ottla.client.errors import ClientClosed, NoBroker, as_kafka_error
from ottla.client.network import MAIN, Build, OnAnswer, Request
from ottla.errors import InvalidRequest, KafkaError, UnsupportedVersion
from ottla.wire import APIS, EncodeError, Message, encode
from ottla.world import ClientWorld

T = TypeVar("T")


class FakeNetwork(AdminNetwork):
    """Connections to a fake cluster: what is sent is answered before `send_then` returns."""

    def __init__(self, world: ClientWorld, config: AdminConfig, cluster: FakeCluster) -> None:
        super().__init__(world, config, name="FakeAdmin")
        self._cluster = cluster

    def send_then(
        self,
        node_id: int,
        request: Request,
        on_answer: OnAnswer,
        *,
        timeout_ms: float | None = None,
        lane: str = MAIN,
    ) -> None:
        # A bootstrap address is some broker's.
        known = node_id if node_id >= 0 else min(self._cluster.nodes)
        if self._is_closed:
            on_answer(None, ClientClosed("the fake admin is closed"))
        elif known not in self._cluster.nodes:
            on_answer(None, NoBroker(f"broker {known} is not known"))
        else:
            on_answer(*self._answered(known, request))

    def _answered(self, node_id: int, request: Request) -> tuple[Message | None, KafkaError | None]:
        measured = self.measured.node(node_id)
        try:
            made, size = self._made(request)
            measured.sent_request(size, self.world.clock.monotonic_ms())
            response = self._cluster.answer(node_id, made)
        except Exception as error:  # noqa: BLE001  it is the caller's
            return None, as_kafka_error(error, "The request could not be built or answered")
        now_ms = self.world.clock.monotonic_ms()
        measured.received_response(0, now_ms, now_ms)  # nothing of it was written as bytes
        return response, None

    def _made(self, request: Request) -> tuple[Message, int]:
        """The request and how many bytes it would be: what the wire cannot carry is refused here too."""
        if isinstance(request, Build):
            build = request
        else:
            message, api_key = request, request.schema.api_key
            assert api_key is not None, "a request has an API"
            build = Build(api_key, lambda version: message)
        spoken = self._cluster.versions(build.api_key)
        version = min(spoken.last, build.version_max)
        if version < max(spoken.first, build.version_min):
            raise UnsupportedVersion(f"No version of {APIS[build.api_key].name} can be used here")
        made = build.make(version)
        try:
            return made, len(encode(made, version))
        except EncodeError as error:
            raise InvalidRequest(str(error)) from None


class AsyncFakeAdmin(AsyncAdmin):
    """An `AsyncAdmin` of a fake cluster; it never suspends."""

    def __init__(self, cluster: FakeCluster | None = None, **settings: object) -> None:
        """A cluster of one broker when none is given. `settings` are an admin's, where a test cares for any."""
        self.cluster = cluster or FakeCluster()
        super().__init__({"bootstrap.servers": "fake:9092"}, world=fake_world(), **settings)

    def _connect(self, world: ClientWorld) -> AdminNetwork:
        return FakeNetwork(world, self.config, self.cluster)


class FakeAdmin(Admin):
    """An `Admin` of a fake cluster."""

    def __init__(self, cluster: FakeCluster | None = None, **settings: object) -> None:
        """A cluster of one broker when none is given. `settings` are an admin's, where a test cares for any."""
        fake = AsyncFakeAdmin(cluster, **settings)
        self._admin = fake
        self.cluster = fake.cluster

    def close(self) -> None:
        """After this every call raises `ClientClosed`. A second call does nothing."""
        run(self._admin.close())

    def _wait(self, call: Callable[[], Awaitable[T]]) -> T:
        return run(call())

    def _call(self, call: Callable[[], T]) -> T:
        return call()
