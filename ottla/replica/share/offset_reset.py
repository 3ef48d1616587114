"""Where a share group begins that has never read a partition: `share.auto.offset.reset` as a timestamp."""

from __future__ import annotations

import re

from ottla.storage import SpecialTimestamp

_DURATION = re.compile(
    r"by_duration:([-+]?)P(?:([-+]?\d+)D)?(?:T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE,
)


def start_timestamp(setting: str, now_ms: int) -> int:
    """`earliest`, `latest`, or how far back from now, as ListOffsets asks for it. The setting is a valid one."""
    if setting == "earliest":
        return SpecialTimestamp.EARLIEST
    if setting == "latest":
        return SpecialTimestamp.LATEST
    parts = _DURATION.fullmatch(setting)
    assert parts is not None, f"share.auto.offset.reset={setting} was not checked"
    sign = -1 if parts[1] == "-" else 1
    days, hours, minutes, seconds = (int(part or 0) for part in parts.group(2, 3, 4, 5))
    fraction_ms = int((parts[6] or "").ljust(3, "0")[:3] or 0)
    if (parts[5] or "").startswith("-"):
        fraction_ms = -fraction_ms
    return now_ms - sign * ((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction_ms)
