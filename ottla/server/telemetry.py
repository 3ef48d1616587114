"""Clients' metrics (KIP-714), as a broker without a receiver of them treats them: nothing is asked for, nothing kept.

Such a broker does not advertise the two APIs, and answers clients that use them all the same. Subscriptions in the
metadata log ask for nothing here, because nobody would take the metrics.
"""

from __future__ import annotations

import struct

from ottla.records import crc32c
from ottla.types import Uuid

PUSH_INTERVAL_MS = 300_000
COMPRESSION_TYPES = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy: in the order in which clients should prefer them."""
NO_COMPRESSION = 0

_NO_METRICS = f"[]{PUSH_INTERVAL_MS}".encode()


def subscription_id(client_instance_id: Uuid) -> int:
    """Names what a client is asked for: the checksum of an empty list and the interval, mixed with the client's id."""
    high, low = struct.unpack(">QQ", client_instance_id)
    mixed: int = high ^ low
    value = crc32c(_NO_METRICS) ^ (mixed >> 32) ^ (mixed & 0xFFFF_FFFF)
    return value - 2**32 if value >= 2**31 else value
