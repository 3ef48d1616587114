"""Where a consumer begins that has no offset: `latest`, `earliest`, `none`, or a time so far back.

Promises: what Kafka takes in `auto.offset.reset` is taken and what it refuses is refused, durations in Java's ISO form
included (`by_duration:P1DT2H3M4.5S`, KIP-1106).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ottla.config import duration_ms
from ottla.errors import InvalidConfig

_BY_DURATION = "by_duration:"


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


def check_offset_reset(name: str, value: str) -> None:
    """A setting's check: `InvalidConfig` in Kafka's words."""
    try:
        OffsetReset.parse(value)
    except ValueError:
        raise InvalidConfig(
            f"Invalid value {value} for configuration {name}: Invalid value `{value}` for configuration {name}. The "
            "value must be either 'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'."
        ) from None
