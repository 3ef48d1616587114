"""AlterUserScramCredentials (key 51): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bytes, Int8, Int16, Int32, Message, Struct, field


class AlterUserScramCredentialsRequest(Message, api_key=51, versions="0", flexible="0+"):
    """Set or delete the SCRAM credentials of users."""

    deletions: list[ScramCredentialDeletion] = field()
    upsertions: list[ScramCredentialUpsertion] = field()


class ScramCredentialDeletion(Struct):
    name: str = field()
    mechanism: Int8 = field(doc="1 SCRAM-SHA-256, 2 SCRAM-SHA-512.")


class ScramCredentialUpsertion(Struct):
    name: str = field()
    mechanism: Int8 = field(doc="1 SCRAM-SHA-256, 2 SCRAM-SHA-512.")
    iterations: Int32 = field()
    salt: Bytes = field()
    salted_password: Bytes = field()


class AlterUserScramCredentialsResponse(Message, api_key=51, versions="0", flexible="0+"):
    """Whether each user's credentials were changed."""

    throttle_time_ms: Int32 = field()
    results: list[AlterUserScramCredentialsResult] = field()


class AlterUserScramCredentialsResult(Struct):
    user: str = field()
    error_code: Int16 = field()
    error_message: str | None = field()
