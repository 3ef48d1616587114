"""`Broker`: the services that handlers work with, gathered in one value by the composition root."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ottla.server.metrics import Metrics
from ottla.wire import Message
from ottla.world import NodeWorld

if TYPE_CHECKING:
    from ottla.server.dispatch import Dispatcher


class ControllerLink(Protocol):
    """The way to the active controller, in this process or elsewhere."""

    def send(self, request: Message, *, version: int) -> Awaitable[Message]:
        """The controller's answer, in the version asked for; `KafkaError` when there is none in time."""
        ...


@dataclass(slots=True)
class Broker:
    """One node as its handlers see it. `image` is replaced, never changed: whoever reads it twice may see two."""

    config: Any
    world: NodeWorld
    node_id: int
    cluster_id: str
    image: Any
    replicas: Any
    controller: ControllerLink
    fetch_sessions: Any = None
    supported_features: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The levels of each feature that this node can run with, lowest and highest."""
    metrics: Metrics = field(default_factory=Metrics)
    dispatchers: dict[str, Dispatcher] = field(default_factory=dict)
    """By role (`broker`, `controller`): what each kind of listener serves, for ApiVersions to tell."""

    def on_metadata(self, delta: object, image: Any) -> None:
        """A metadata publisher: the newest image is what requests are answered from."""
        self.image = image
