"""`Broker`: the services that handlers work with, gathered in one value by the composition root."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ottla.config import NOT_ACTED_ON, BrokerConfig, DynamicConfig
from ottla.coordinator.group import GroupCoordinator
from ottla.coordinator.transaction import TransactionCoordinator
from ottla.metadata import BROKER, SUPPORTED_FEATURES, Delta, Image, VersionRange
from ottla.replica import ReplicaManager
from ottla.server.fetch_session import FetchSessions
from ottla.server.metrics import Metrics
from ottla.server.topic_creation import SHARE_TOPIC, TopicCreation
from ottla.wire import Message
from ottla.world import NodeWorld

if TYPE_CHECKING:
    from ottla.metadata import Gauge
    from ottla.server.dispatch import Dispatcher
    from ottla.server.share import ShareService

log = logging.getLogger(__name__)


class ControllerLink(Protocol):
    """The way to the active controller, in this process or elsewhere."""

    @property
    def leader_id(self) -> int:
        """The node that is the active controller, as far as is known here; -1 when it is not."""
        ...

    def send(self, request: Message, *, version: int) -> Awaitable[Message]:
        """The controller's answer, in the version asked for; `KafkaError` when there is none in time."""
        ...

    def gauges(self) -> Sequence[Gauge]:
        """What the controller of this node and its quorum show; nothing where this node has none. A name without a
        group is one of `kafka.controller:type=KafkaController`."""
        ...


@dataclass(slots=True)
class Broker:
    """One node as its handlers see it. `image` is replaced, never changed: whoever reads it twice may see two."""

    config: BrokerConfig
    """The settings in effect: the file's, with what the metadata log has on top."""
    world: NodeWorld
    node_id: int
    cluster_id: str
    image: Image
    replicas: ReplicaManager
    controller: ControllerLink
    fetch_sessions: FetchSessions
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    supported_features: Mapping[str, VersionRange] = field(default_factory=lambda: SUPPORTED_FEATURES)
    """The levels of each feature that this node can run with, lowest and highest."""
    kraft_version: int = 0
    """The finalized `kraft.version`, which the metadata log's own control records tell."""
    metrics: Metrics = field(default_factory=Metrics)
    dispatchers: dict[str, Dispatcher] = field(default_factory=dict)
    """By role (`broker`, `controller`): what each kind of listener serves, for ApiVersions to tell."""

    when_configured: list[Callable[[BrokerConfig], object]] = field(default_factory=list)
    """Called with the new settings when the metadata log has changed them."""
    topic_creation: TopicCreation = field(init=False)
    _static_config: BrokerConfig = field(init=False)
    _dynamic_config: DynamicConfig | None = field(init=False, default=None)
    _share: ShareService | None = field(init=False, default=None)
    _told_without_effect: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        self.topic_creation = TopicCreation(self)
        self._static_config = self.config

    @property
    def dynamic_config(self) -> DynamicConfig:
        """The settings in effect, and where each of them comes from."""
        if self._dynamic_config is None:
            own, cluster = self.image.config_of(BROKER, str(self.node_id)), self.image.config_of(BROKER, "")
            self._dynamic_config = DynamicConfig(self._static_config, cluster, own)
        return self._dynamic_config

    @property
    def share(self) -> ShareService:
        """What share groups need, made when it is first asked for: most nodes have none."""
        if self._share is None:
            from ottla.server.share import ShareService  # it would make every start slower

            self._share = ShareService(self)
        return self._share

    def close(self) -> None:
        """End what was made along the way; the composition root ends what it has made itself."""
        if self._share is not None:
            self._share.close()

    def on_metadata(self, delta: Delta, image: Image) -> None:
        """A metadata publisher: the newest image is what requests are answered from."""
        self.image = image
        if self._share is not None or SHARE_TOPIC in image.topics.by_name:
            self.share.on_metadata(delta, image)
        if (BROKER, "") in delta.changed_configs or (BROKER, str(self.node_id)) in delta.changed_configs:
            self._dynamic_config = None
            changed = self.dynamic_config
            self.config = changed.current
            for call in self.when_configured:
                call(self.config)
            for name, reason in changed.ignored.items():
                log.error("[Broker id=%d] The metadata log's value of %s is not used: %s", self.node_id, name, reason)
            without_effect = NOT_ACTED_ON.intersection({*changed.cluster, *changed.own})
            if not without_effect <= self._told_without_effect:
                self._told_without_effect = without_effect
                log.warning("[Broker id=%d] These settings of the metadata log have no effect in Ottla yet: %s",
                            self.node_id, ", ".join(sorted(without_effect)))  # fmt: skip
