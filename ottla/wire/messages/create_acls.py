"""CreateAcls (key 30): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int8, Int16, Int32, Message, Struct, field


class CreateAclsRequest(Message, api_key=30, versions="1-3", flexible="2+"):
    """Add access rules."""

    creations: list[AclCreation] = field()


class AclCreation(Struct):
    resource_type: Int8 = field(doc="2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user.")
    resource_name: str = field()
    resource_pattern_type: Int8 = field("1+", default=3, doc="3 literal, 4 prefixed.")
    principal: str = field()
    host: str = field()
    operation: Int8 = field(
        doc="2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster action, 10 describe "
        "configs, 11 alter configs, 12 idempotent write, 13 create tokens, 14 describe tokens, 15 "
        "two-phase commit."
    )
    permission_type: Int8 = field(doc="2 deny, 3 allow.")


class CreateAclsResponse(Message, api_key=30, versions="1-3", flexible="2+"):
    """Whether each access rule was added."""

    throttle_time_ms: Int32 = field()
    results: list[AclCreationResult] = field()


class AclCreationResult(Struct):
    error_code: Int16 = field()
    error_message: str | None = field()
