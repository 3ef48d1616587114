"""The ids of log directories, as partitions and brokers name them (KIP-858).

A few ids are reserved: they say that a replica's directory is not known, not chosen yet, or lost. Called by whatever
asks whether a replica can be used.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable

from ottla.types import Uuid
from ottla.world import World

MIGRATING = Uuid(16)
"""The replica is older than directory ids."""

UNASSIGNED = Uuid(15 * b"\0" + b"\1")
"""The broker chooses, and then tells."""

LOST = Uuid(15 * b"\0" + b"\2")
"""The replica's directory has failed, or is gone."""

_RESERVED_BELOW = 100


def is_reserved(directory: Uuid) -> bool:
    return directory[:8] == bytes(8) and int.from_bytes(directory[8:], "big", signed=True) < _RESERVED_BELOW


def is_online(directory: Uuid, online: Collection[Uuid]) -> bool:
    """Whether a replica in this directory can be used, on a broker whose working directories are `online`.

    A broker that has told of none predates directory ids, and would have stopped if its disks had failed.
    """
    if directory in (UNASSIGNED, MIGRATING):
        return True
    if directory == LOST:
        return False
    return not online or directory in online


def in_order(directories: Iterable[Uuid]) -> tuple[Uuid, ...]:
    """Sorted as Kafka sorts ids: as two signed 64-bit numbers."""
    return tuple(sorted(directories, key=struct.Struct(">qq").unpack))


def random_uuid(world: World) -> Uuid:
    """A new id. Its text never begins with `-`, which a command line would take for an option."""
    while True:
        raw = bytearray(world.random.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40  # version 4, variant 2: what Java's UUID.randomUUID gives
        raw[8] = raw[8] & 0x3F | 0x80
        made = Uuid(raw)
        if not str(made).startswith("-") and not is_reserved(made):
            return made
