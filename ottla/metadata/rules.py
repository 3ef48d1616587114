"""Access rules, credentials, tokens and quotas, as the image keeps them.

Their APIs come later; until then they are kept whole, so that a snapshot loses nothing. Promises: values that hold
their own bytes, never a view of the batch they came in.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.types import Uuid
from ottla.wire.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)
from ottla.wire.metadata.configs import EntityData

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Whose quota it is: pairs of entity type and name, sorted by type; a name of None is the default entity."""


def quota_entity(record: ClientQuotaRecord) -> QuotaEntity:
    return tuple(sorted(((part.entity_type, part.entity_name) for part in record.entity), key=lambda pair: pair[0]))


def quota_record(entity: QuotaEntity, key: str, value: float) -> ClientQuotaRecord:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    return ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


class AccessRule(NamedTuple):
    """Who may do what to which resources, or may not."""

    id: Uuid
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    @classmethod
    def from_record(cls, record: AccessControlEntryRecord) -> AccessRule:
        return cls(**{name: getattr(record, name) for name in cls._fields})

    def to_record(self) -> AccessControlEntryRecord:
        return AccessControlEntryRecord(**{name: getattr(self, name) for name in self._fields})


class ScramCredential(NamedTuple):
    """A user's salted password for one SCRAM mechanism."""

    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def from_record(cls, record: UserScramCredentialRecord) -> ScramCredential:
        return cls(
            name=record.name,
            mechanism=record.mechanism,
            salt=bytes(record.salt),
            stored_key=bytes(record.stored_key),
            server_key=bytes(record.server_key),
            iterations=record.iterations,
        )

    def to_record(self) -> UserScramCredentialRecord:
        return UserScramCredentialRecord(
            name=self.name,
            mechanism=self.mechanism,
            salt=self.salt,
            stored_key=self.stored_key,
            server_key=self.server_key,
            iterations=self.iterations,
        )


class DelegationToken(NamedTuple):
    """A token with which its owner can authenticate until it expires."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int
    token_id: str

    @classmethod
    def from_record(cls, record: DelegationTokenRecord) -> DelegationToken:
        return cls(
            owner=record.owner,
            requester=record.requester,
            renewers=tuple(record.renewers),
            issue_timestamp=record.issue_timestamp,
            max_timestamp=record.max_timestamp,
            expiration_timestamp=record.expiration_timestamp,
            token_id=record.token_id,
        )

    def to_record(self) -> DelegationTokenRecord:
        return DelegationTokenRecord(
            owner=self.owner,
            requester=self.requester,
            renewers=list(self.renewers),
            issue_timestamp=self.issue_timestamp,
            max_timestamp=self.max_timestamp,
            expiration_timestamp=self.expiration_timestamp,
            token_id=self.token_id,
        )
