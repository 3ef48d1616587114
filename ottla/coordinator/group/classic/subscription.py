"""What a consumer tells in its group about the topics it consumes: the part that every version begins with."""

from __future__ import annotations

from ottla.types import Buffer
from ottla.wire import DecodeError, decode_prefix
from ottla.wire.data.consumer_protocol import ConsumerProtocolSubscription

CONSUMER = "consumer"
"""The protocol type of consumers; others (`connect`, `sr`) tell what only they can read."""
VERSION_SIZE = 2


class Unreadable(ValueError):
    """The metadata is not a consumer's, though the group says so."""


def subscribed_topics(metadata: Buffer) -> list[str]:
    """The topics in a consumer's metadata. Version 0 begins all later ones, whatever the version field says."""
    try:
        subscription, _ = decode_prefix(ConsumerProtocolSubscription, 0, metadata, VERSION_SIZE)
    except DecodeError as error:
        raise Unreadable(str(error)) from error
    return subscription.topics
