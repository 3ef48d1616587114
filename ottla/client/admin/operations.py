"""What a principal may do to a resource: the operations of Kafka's access rules, also told with descriptions."""

from __future__ import annotations

from enum import IntEnum

NOT_TOLD = -0x8000_0000
"""The bits that mean that nobody asked, or that the broker has no authorizer's answer."""


class AclOperation(IntEnum):
    """Numbered as the protocol does. `ANY` is for filters alone."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15

    @classmethod
    def _missing_(cls, value: object) -> AclOperation:
        return cls.UNKNOWN


def operations_of(bits: int) -> frozenset[AclOperation] | None:
    """The operations in a response's bit field (KIP-430); None when they were not told."""
    if bits == NOT_TOLD:
        return None
    return frozenset(one for one in AclOperation if one > AclOperation.ALL and bits >> one & 1)
