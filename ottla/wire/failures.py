"""What a codec raises: bytes that cannot be read, and values that cannot be written."""

from __future__ import annotations


class DecodeError(Exception):
    """Bytes are not what they should be: `path` names the field, `position` its byte, `reason` what is wrong."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(path, position, reason)
        self.path = path
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position}: {self.reason}"


class EncodeError(Exception):
    """A field of a message holds what the wire cannot carry: `path` names the field, `reason` says why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class UnknownRecord(DecodeError):
    """A record on disk has a type or a version that this Ottla does not know; a newer one wrote it."""


class Refused(ValueError):
    """The bytes or the value break a rule of the format. Internal: `codec` turns it into one of the errors above."""
