"""DescribeUserScramCredentials (key 50): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int8, Int16, Int32, Message, Struct, field


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions="0", flexible="0+"):
    """Ask which SCRAM credentials users have."""

    users: list[UserName] | None = field()


class UserName(Struct):
    name: str = field()


class DescribeUserScramCredentialsResponse(Message, api_key=50, versions="0", flexible="0+"):
    """The mechanisms and iteration counts of each user; never a secret."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    results: list[DescribeUserScramCredentialsResult] = field()


class DescribeUserScramCredentialsResult(Struct):
    user: str = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    credential_infos: list[CredentialInfo] = field()


class CredentialInfo(Struct):
    mechanism: Int8 = field(doc="1 SCRAM-SHA-256, 2 SCRAM-SHA-512.")
    iterations: Int32 = field()
