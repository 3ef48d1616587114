"""The committed offsets of all groups of a shard: `Offsets`."""

from ottla.coordinator.group.offsets.offsets import Offsets

__all__ = ["Offsets"]
