"""Durations as Java writes them: `P1DT2H3M4.5S`. Groups and consumers that begin so far back say it in this form."""

from __future__ import annotations

import re

# Every part may have a sign of its own, and only seconds have a fraction, of up to nine digits.
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_NANOS = 1_000_000_000


def duration_ms(text: str) -> int:
    """Milliseconds of a duration that is not below zero, a started one counted down; else `ValueError`."""
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
