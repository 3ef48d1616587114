"""CreateDelegationToken (key 38): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bytes, Int16, Int32, Int64, Message, Struct, field


class CreateDelegationTokenRequest(Message, api_key=38, versions="1-3", flexible="2+"):
    """Create a delegation token."""

    owner_principal_type: str | None = field("3+")
    owner_principal_name: str | None = field("3+")
    renewers: list[CreatableRenewers] = field()
    max_lifetime_ms: Int64 = field()


class CreatableRenewers(Struct):
    principal_type: str = field()
    principal_name: str = field()


class CreateDelegationTokenResponse(Message, api_key=38, versions="1-3", flexible="2+"):
    """The new token with its secret and its times."""

    error_code: Int16 = field()
    principal_type: str = field()
    principal_name: str = field()
    token_requester_principal_type: str = field("3+")
    token_requester_principal_name: str = field("3+")
    issue_timestamp_ms: Int64 = field()
    expiry_timestamp_ms: Int64 = field()
    max_timestamp_ms: Int64 = field()
    token_id: str = field()
    hmac: Bytes = field()
    throttle_time_ms: Int32 = field()
