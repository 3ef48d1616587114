"""Feature levels: what the cluster has finalized, and whether it may go up or down.

Promises: a level is raised only when every registered broker and controller supports it, and lowered only when asked
for and when no metadata would be lost. Called by the controller for UpdateFeatures; asked by the other controls which
records they may write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from ottla.errors import InvalidUpdateVersion
from ottla.machine import UndoDict, UndoLog
from ottla.metadata.builder import ReplayError
from ottla.metadata.levels import (
    ELR_VERSION,
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    MINIMUM_METADATA_VERSION,
    NOT_SUPPORTED,
    SUPPORTED_FEATURES,
    MetadataVersion,
    VersionRange,
    metadata_changed,
    missing_dependency,
)
from ottla.wire.messages.update_features import FeatureUpdateKey
from ottla.wire.metadata import FeatureLevelRecord, NoOpRecord, VersionedRecord

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


class Node(Protocol):
    """A registered broker or controller."""

    @property
    def id(self) -> int: ...

    @property
    def features(self) -> Mapping[str, VersionRange]: ...


class FeatureControl:
    """The finalized levels. `kraft.version` is not among them: the raft layer finalizes that one itself."""

    def __init__(self, undo: UndoLog, *, node_id: int, quorum_ids: Callable[[], Collection[int]]) -> None:
        self._node_id = node_id
        self._quorum_ids = quorum_ids
        self.finalized: UndoDict[str, int] = UndoDict(undo)

    @property
    def is_known(self) -> bool:
        """False until the first `metadata.version` is replayed: the log is empty."""
        return METADATA_VERSION in self.finalized

    @property
    def metadata_version(self) -> MetadataVersion:
        assert self.is_known, "the metadata log has not told its metadata.version yet"
        return MetadataVersion(self.finalized[METADATA_VERSION])

    @property
    def has_elr(self) -> bool:
        return self.finalized.get(ELR_VERSION, 0) >= 1

    def replay_level(self, record: FeatureLevelRecord) -> None:
        supported = SUPPORTED_FEATURES.get(record.name, NOT_SUPPORTED)
        if not supported.includes(record.feature_level):
            raise ReplayError(
                f"{record.name} is finalized at {record.feature_level}, and this controller supports {supported}"
            )
        if record.name == KRAFT_VERSION:
            return
        if record.feature_level == 0:
            self.finalized.pop(record.name, None)
        else:
            self.finalized[record.name] = record.feature_level

    def is_controller(self, node_id: int) -> bool:
        return node_id == self._node_id or node_id in self._quorum_ids()

    def update(
        self,
        updates: Iterable[FeatureUpdateKey],
        *,
        brokers: Iterable[Node],
        controllers: Iterable[Node],
        kraft_version: int,
    ) -> list[VersionedRecord]:
        """The records that change these levels, all or none; `InvalidUpdateVersion` with the first reason against."""
        wanted = {update.feature: update for update in updates}
        proposed = {**self.finalized, **{name: update.max_version_level for name, update in wanted.items()}}
        brokers, controllers = list(brokers), list(controllers)
        records: list[VersionedRecord] = []
        for name, update in wanted.items():
            self._check(update, brokers, controllers, kraft_version)
            level = update.max_version_level
            if name == METADATA_VERSION:
                self._check_metadata_version(level, is_unsafe=update.upgrade_type == UNSAFE_DOWNGRADE)
            elif name == KRAFT_VERSION:
                if level != kraft_version:
                    raise _refused(update, "The controllers of this release cannot change it while they run.")
                if update.upgrade_type == UPGRADE:
                    records.append(VersionedRecord(NoOpRecord(), 0))
                continue
            else:
                missing = missing_dependency(name, level, proposed)
                if missing is not None:
                    raise _refused(update, missing)
            records.append(VersionedRecord(FeatureLevelRecord(name=name, feature_level=level), 0))
        return records

    def _check(
        self, update: FeatureUpdateKey, brokers: list[Node], controllers: list[Node], kraft_version: int
    ) -> None:
        if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            raise _refused(update, "The controller does not support the given upgrade type.")
        name, level = update.feature, update.max_version_level
        current = kraft_version if name == KRAFT_VERSION else self.finalized.get(name, 0)
        if level < 0:
            raise _refused(update, "A feature version cannot be less than 0.")
        reason = self._why_not_supported(name, level, brokers, controllers)
        if reason is not None:
            raise _refused(update, reason)
        if level < current and update.upgrade_type == UPGRADE:
            raise _refused(
                update,
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
                "unsafe downgrade.",
            )
        if level > current and update.upgrade_type != UPGRADE:
            raise _refused(update, "Can't downgrade to a newer version.")

    def _why_not_supported(self, name: str, level: int, brokers: list[Node], controllers: list[Node]) -> str | None:
        reason = _why_not(f"Local controller {self._node_id}", SUPPORTED_FEATURES.get(name), level)
        for broker in brokers:
            reason = reason or _why_not(f"Broker {broker.id}", broker.features.get(name), level)
        if reason is not None or not self.metadata_version.has_controller_registrations:
            return reason
        found = {self._node_id}
        for controller in controllers:
            if controller.id != self._node_id:
                reason = reason or _why_not(f"Controller {controller.id}", controller.features.get(name), level)
                found.add(controller.id)
        for node_id in sorted(self._quorum_ids()):
            if reason is None and node_id not in found:
                reason = f"controller {node_id} has not registered, and may not support this feature"
        return reason

    def _check_metadata_version(self, level: int, *, is_unsafe: bool) -> None:
        current = self.metadata_version
        if not MINIMUM_METADATA_VERSION <= level <= LATEST_METADATA_VERSION:
            raise InvalidUpdateVersion(
                f"Invalid metadata.version {level}. Valid versions are from {MINIMUM_METADATA_VERSION} to "
                f"{LATEST_METADATA_VERSION}."
            )
        if level < current and metadata_changed(level, current):
            raise InvalidUpdateVersion(
                f"Unsupported metadata.version downgrade from {current} to {level}. "
                + (
                    "Unsafe metadata downgrade is not supported in this version."
                    if is_unsafe
                    else "Refusing to perform the requested downgrade because it might delete metadata information."
                )
            )


def _why_not(who: str, supported: VersionRange | None, level: int) -> str | None:
    if supported is None:
        supported = NOT_SUPPORTED
    if supported.includes(level):
        return None
    if supported == NOT_SUPPORTED:
        return f"{who} does not support this feature."
    return f"{who} only supports versions {supported}"


def _refused(update: FeatureUpdateKey, why: str) -> InvalidUpdateVersion:
    return InvalidUpdateVersion(
        f"Invalid update version {update.max_version_level} for feature {update.feature}. {why}"
    )
