"""Whether this broker runs Streams groups at all: the cluster's feature and the broker's setting say."""

from __future__ import annotations

from ottla.config import BrokerConfig
from ottla.errors import UnsupportedVersion
from ottla.metadata import Image

STREAMS_VERSION = "streams.version"
PROTOCOL = "streams"
"""The name in `group.coordinator.rebalance.protocols`."""


def check_streams_protocol(image: Image, config: BrokerConfig) -> None:
    """`UnsupportedVersion` where it does not: the feature is off, or the setting leaves the protocol out."""
    if image.features.get(STREAMS_VERSION, 0) < 1 or PROTOCOL not in config.group_coordinator_rebalance_protocols:
        raise UnsupportedVersion
