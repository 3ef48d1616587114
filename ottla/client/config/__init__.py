"""The settings of clients, under Kafka's names: a table for each kind of client, and how one is read.

A producer has no use for a consumer's table, so each is imported when it is first asked for.
"""

from typing import TYPE_CHECKING

from ottla.client.config.common import FIRST_CONTACT, CommonConfig
from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.client.config.admin import AdminConfig
    from ottla.client.config.client import ClientConfig
    from ottla.client.config.consumer import ConsumerConfig, ShareConsumerConfig
    from ottla.client.config.offset_reset import OffsetReset, ResetKind
    from ottla.client.config.producer import ProducerConfig
    from ottla.client.config.settings import read_settings

__all__ = [
    "FIRST_CONTACT",
    "AdminConfig",
    "ClientConfig",
    "CommonConfig",
    "ConsumerConfig",
    "OffsetReset",
    "ProducerConfig",
    "ResetKind",
    "ShareConsumerConfig",
    "read_settings",
]

_HOME = {
    "AdminConfig": "admin",
    "ClientConfig": "client",
    "ConsumerConfig": "consumer",
    "OffsetReset": "offset_reset",
    "ProducerConfig": "producer",
    "ResetKind": "offset_reset",
    "ShareConsumerConfig": "consumer",
    "read_settings": "settings",
}

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOME)
