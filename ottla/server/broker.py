"""`Broker`: the services that handlers work with, gathered in one value by the composition root."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ottla.metadata import SUPPORTED_FEATURES, Delta, Image, VersionRange
from ottla.server.metrics import Metrics
from ottla.server.topic_creation import TopicCreation
from ottla.wire import Message
from ottla.world import NodeWorld

if TYPE_CHECKING:
    from ottla.server.dispatch import Dispatcher


class ControllerLink(Protocol):
    """The way to the active controller, in this process or elsewhere."""

    @property
    def leader_id(self) -> int:
        """The node that is the active controller, as far as is known here; -1 when it is not."""
        ...

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
    image: Image
    replicas: Any
    controller: ControllerLink
    fetch_sessions: Any = None
    supported_features: Mapping[str, VersionRange] = field(default_factory=lambda: SUPPORTED_FEATURES)
    """The levels of each feature that this node can run with, lowest and highest."""
    kraft_version: int = 0
    """The finalized `kraft.version`, which the metadata log's own control records tell."""
    metrics: Metrics = field(default_factory=Metrics)
    dispatchers: dict[str, Dispatcher] = field(default_factory=dict)
    """By role (`broker`, `controller`): what each kind of listener serves, for ApiVersions to tell."""

    topic_creation: TopicCreation = field(init=False)

    def __post_init__(self) -> None:
        self.topic_creation = TopicCreation(self)

    def on_metadata(self, delta: Delta, image: Image) -> None:
        """A metadata publisher: the newest image is what requests are answered from."""
        self.image = image
