"""Where a consumer begins that has no offset: `latest`, `earliest`, `none`, or a time so far back.

Promises: what Kafka takes in `auto.offset.reset` is taken and what it refuses is refused, durations in Java's ISO form
included (`by_duration:P1DT2H3M4.5S`, KIP-1106).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from ottla.errors import InvalidConfig

_BY_DURATION = "by_duration:"
# Java's `Duration.parse`: every part may have a sign of its own, and only seconds have a fraction.
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_NANOS = 1_000_000_000


class ResetKind(Enum):
    """The way to an offset when there is none."""

    LATEST = "latest"
    EARLIEST = "earliest"
    NONE = "none"
    BY_DURATION = "by_duration"


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """A value of `auto.offset.reset`; `duration_ms` is how far back, with `BY_DURATION` only."""

    kind: ResetKind
    duration_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> OffsetReset:
        """Read the setting's text; `ValueError` when it is none of the forms."""
        if text.startswith(_BY_DURATION):
            return cls(ResetKind.BY_DURATION, duration_ms(text.removeprefix(_BY_DURATION)))
        kind = ResetKind(text)
        if kind is ResetKind.BY_DURATION:
            raise ValueError("the duration is missing")
        return cls(kind)


def duration_ms(text: str) -> int:
    """Milliseconds of an ISO duration that is not below zero, a started one counted down; else `ValueError`."""
    parts = _DURATION.fullmatch(text)
    if parts is None or text[-1] in "Tt" or not any(parts.group(2, 4, 5, 6)):
        raise ValueError(f"{text!r} is not a duration")
    days, hours, minutes, seconds = (int(part or 0) for part in parts.group(2, 4, 5, 6))
    fraction = int((parts[7] or "").ljust(9, "0"))
    if (parts[6] or "").startswith("-"):
        fraction = -fraction
    nanos = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * _NANOS + fraction
    nanos = -nanos if parts[1] == "-" else nanos
    if nanos < 0:
        raise ValueError(f"{text!r} is below zero")
    return nanos // 1_000_000


def check_offset_reset(name: str, value: str) -> None:
    """A setting's check: `InvalidConfig` in Kafka's words."""
    try:
        OffsetReset.parse(value)
    except ValueError:
        raise InvalidConfig(
            f"Invalid value {value} for configuration {name}: Invalid value `{value}` for configuration {name}. The "
            "value must be either 'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'."
        ) from None
