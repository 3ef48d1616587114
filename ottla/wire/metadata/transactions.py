"""Metadata records that make several others take effect together."""

from __future__ import annotations

from ottla.wire.schema import Message, field


class BeginTransactionRecord(Message, api_key=23, versions="0", flexible="0+"):
    """The records that follow take effect together."""

    name: str | None = field(default=None, tag=0)


class EndTransactionRecord(Message, api_key=24, versions="0", flexible="0+"):
    """The records since the beginning of the transaction take effect."""


class AbortTransactionRecord(Message, api_key=25, versions="0", flexible="0+"):
    """The records since the beginning of the transaction are void."""

    reason: str | None = field(default=None, tag=0)
