"""The cluster's metadata: the image that every node keeps, and the controller that decides how it changes.

`ImageLoader` follows the committed log and publishes `(delta, image)`; `Controller` answers the requests that change
metadata. See README.md. The controller is imported when it is first asked for: a broker that is none does not load it.
"""

from typing import TYPE_CHECKING

from ottla.lazy import front_door
from ottla.metadata.builder import ImageBuilder, ReplayError
from ottla.metadata.delta import BrokerChange, ConfigChange, Delta, PartitionChange, TopicChange, between
from ottla.metadata.directories import LOST, MIGRATING, UNASSIGNED, random_uuid
from ottla.metadata.image import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    ConfigResource,
    Image,
    TopicImage,
    TopicsImage,
)
from ottla.metadata.levels import (
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    TRANSACTION_VERSION,
    MetadataVersion,
    VersionRange,
    default_levels,
)
from ottla.metadata.loader import ImageLoader, Publisher
from ottla.metadata.partition import NO_LEADER, LeaderRecoveryState, PartitionImage
from ottla.metadata.registration import BrokerImage, ControllerImage, Endpoint
from ottla.metadata.snapshots import SnapshotGenerator
from ottla.metadata.topic_names import CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS, check_topic_name

if TYPE_CHECKING:
    from ottla.metadata.control.activation import bootstrap_records
    from ottla.metadata.control.gauges import Gauge
    from ottla.metadata.controller import Controller
    from ottla.metadata.election_counts import ElectionCounts

_LAZY = {
    "Controller": "ottla.metadata.controller",
    "Gauge": "ottla.metadata.control.gauges",
    "ElectionCounts": "ottla.metadata.election_counts",
    "bootstrap_records": "ottla.metadata.control.activation",
}

__all__ = [
    # the image
    "Image",
    "TopicsImage",
    "TopicImage",
    "PartitionImage",
    "LeaderRecoveryState",
    "NO_LEADER",
    "BrokerImage",
    "ControllerImage",
    "Endpoint",
    "ConfigResource",
    "TOPIC",
    "BROKER",
    "BROKER_LOGGER",
    "CLIENT_METRICS",
    "GROUP",
    # how it changes
    "ImageLoader",
    "ImageBuilder",
    "ReplayError",
    "Publisher",
    "Delta",
    "TopicChange",
    "PartitionChange",
    "BrokerChange",
    "ConfigChange",
    "between",
    "SnapshotGenerator",
    # who decides
    "Controller",
    "Gauge",
    "ElectionCounts",
    "bootstrap_records",
    # features
    "MetadataVersion",
    "METADATA_VERSION",
    "KRAFT_VERSION",
    "LATEST_METADATA_VERSION",
    "SUPPORTED_FEATURES",
    "TRANSACTION_VERSION",
    "VersionRange",
    "default_levels",
    # names and ids
    "CLUSTER_METADATA_TOPIC",
    "INTERNAL_TOPICS",
    "check_topic_name",
    "random_uuid",
    "MIGRATING",
    "UNASSIGNED",
    "LOST",
]

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _LAZY)
