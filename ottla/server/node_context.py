"""`NodeContext`: what every role of a node has: settings in effect, the world, the newest metadata image, metrics.

Promises: `image` is replaced, never changed; the settings are those of the file with what the metadata log has on top.
Made by the composition root, once a node; the services of a role (`broker`, `controller_services`) stand on it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from ottla.config import NOT_ACTED_ON, BrokerConfig, DynamicConfig
from ottla.metadata import BROKER, SUPPORTED_FEATURES, Delta, Image, VersionRange
from ottla.server.metrics import Metrics
from ottla.world import NodeWorld

log = logging.getLogger(__name__)


class QuorumView(Protocol):
    """What a node knows of the metadata quorum now: read when it is needed, never kept."""

    @property
    def leader_id(self) -> int:
        """The active controller; -1 while none is known."""
        ...

    @property
    def kraft_version(self) -> int:
        """The finalized `kraft.version`, which the metadata log's own control records tell."""
        ...


class NodeContext:
    """See the module. Whoever reads `image` twice may see two."""

    __slots__ = (
        "_dynamic_config", "_static_config", "_told_without_effect", "cluster_id", "config", "image", "metrics",
        "node_id", "quorum", "supported_features", "when_configured", "world",
    )  # fmt: skip

    def __init__(
        self,
        config: BrokerConfig,
        world: NodeWorld,
        node_id: int,
        cluster_id: str,
        image: Image,
        quorum: QuorumView,
        supported_features: Mapping[str, VersionRange] = SUPPORTED_FEATURES,
    ) -> None:
        self.config = config
        """The settings in effect: the file's, with what the metadata log has on top."""
        self.world = world
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.image = image
        self.quorum = quorum
        self.supported_features = supported_features
        """The levels of each feature that this node can run with, lowest and highest."""
        self.metrics = Metrics()
        self.when_configured: list[Callable[[BrokerConfig], object]] = []
        """Called with the new settings when the metadata log has changed them."""
        self._static_config = config
        self._dynamic_config: DynamicConfig | None = None
        self._told_without_effect: frozenset[str] = frozenset()

    @property
    def dynamic_config(self) -> DynamicConfig:
        """The settings in effect, and where each of them comes from."""
        if self._dynamic_config is None:
            own, cluster = self.image.config_of(BROKER, str(self.node_id)), self.image.config_of(BROKER, "")
            self._dynamic_config = DynamicConfig(self._static_config, cluster, own)
        return self._dynamic_config

    def on_metadata(self, delta: Delta, image: Image) -> None:
        """A metadata publisher: the newest image is what requests are answered from."""
        self.image = image
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
