"""The cluster's metadata: the image that every node keeps, and the controller that decides how it changes.

`ImageLoader` follows the committed log and publishes `(delta, image)`; `Controller` answers the requests that change
metadata. See README.md.
"""

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
    MetadataVersion,
    VersionRange,
    default_levels,
)
from ottla.metadata.loader import ImageLoader, Publisher
from ottla.metadata.partition import NO_LEADER, LeaderRecoveryState, PartitionImage
from ottla.metadata.registration import BrokerImage, ControllerImage, Endpoint
from ottla.metadata.topic_names import CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS, check_topic_name

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
    # features
    "MetadataVersion",
    "METADATA_VERSION",
    "KRAFT_VERSION",
    "LATEST_METADATA_VERSION",
    "SUPPORTED_FEATURES",
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
