"""Metadata records about credentials, tokens and access rules."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bytes, Int8, Int32, Int64, Message, field


class UserScramCredentialRecord(Message, api_key=11, versions="0", flexible="0+"):
    """A user has a SCRAM credential."""

    name: str = field()
    mechanism: Int8 = field()
    salt: Bytes = field()
    stored_key: Bytes = field()
    server_key: Bytes = field()
    iterations: Int32 = field()


class RemoveUserScramCredentialRecord(Message, api_key=22, versions="0", flexible="0+"):
    """A user's SCRAM credential is gone."""

    name: str = field()
    mechanism: Int8 = field()


class DelegationTokenRecord(Message, api_key=10, versions="0", flexible="0+"):
    """A delegation token exists or was renewed."""

    owner: str = field()
    requester: str = field()
    renewers: list[str] = field()
    issue_timestamp: Int64 = field()
    max_timestamp: Int64 = field()
    expiration_timestamp: Int64 = field()
    token_id: str = field()


class RemoveDelegationTokenRecord(Message, api_key=26, versions="0", flexible="0+"):
    """A delegation token is gone."""

    token_id: str = field()


class AccessControlEntryRecord(Message, api_key=18, versions="0", flexible="0+"):
    """An access rule exists."""

    id: Uuid = field()
    resource_type: Int8 = field()
    resource_name: str = field()
    pattern_type: Int8 = field()
    principal: str = field()
    host: str = field()
    operation: Int8 = field()
    permission_type: Int8 = field()


class RemoveAccessControlEntryRecord(Message, api_key=19, versions="0", flexible="0+"):
    """An access rule is gone."""

    id: Uuid = field()
