"""DescribeDelegationToken (key 41): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bytes, Int16, Int32, Int64, Message, Struct, field


class DescribeDelegationTokenRequest(Message, api_key=41, versions="1-3", flexible="2+"):
    """Ask for the delegation tokens of owners."""

    owners: list[DescribeDelegationTokenOwner] | None = field()


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = field()
    principal_name: str = field()


class DescribeDelegationTokenResponse(Message, api_key=41, versions="1-3", flexible="2+"):
    """The tokens found, with their owners and renewers."""

    error_code: Int16 = field()
    tokens: list[DescribedDelegationToken] = field()
    throttle_time_ms: Int32 = field()


class DescribedDelegationToken(Struct):
    principal_type: str = field()
    principal_name: str = field()
    token_requester_principal_type: str = field("3+")
    token_requester_principal_name: str = field("3+")
    issue_timestamp: Int64 = field()
    expiry_timestamp: Int64 = field()
    max_timestamp: Int64 = field()
    token_id: str = field()
    hmac: Bytes = field()
    renewers: list[DescribedDelegationTokenRenewer] = field()


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = field()
    principal_name: str = field()
