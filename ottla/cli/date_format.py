"""Times by a pattern of Java's `SimpleDateFormat`, which is what Kafka's tools take: `yyyy-MM-dd HH:mm:ss:SSS`.

Promises: the text that Java prints in English and in the machine's time zone; a letter that is not known, or a quote
without its end, is refused before anything runs. Weeks and names of zones written out in full are not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

PART = re.compile(r"'((?:[^']|'')*)'|(')|(([a-zA-Z])\4*)|([^a-zA-Z']+)")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
NUMBERS: dict[str, Callable[[datetime], int]] = {
    "d": lambda at: at.day,
    "D": lambda at: at.timetuple().tm_yday,
    "u": lambda at: at.isoweekday(),
    "H": lambda at: at.hour,
    "k": lambda at: at.hour or 24,
    "K": lambda at: at.hour % 12,
    "h": lambda at: at.hour % 12 or 12,
    "m": lambda at: at.minute,
    "s": lambda at: at.second,
    "S": lambda at: at.microsecond // 1000,
}
"""Padded with zeros to as many digits as there are letters."""


class DateFormat:
    """One pattern. `ValueError` when it is none."""

    def __init__(self, pattern: str) -> None:
        self._parts = [_part(match) for match in PART.finditer(pattern)]

    def format(self, ms: float) -> str:
        """Milliseconds since the epoch, in local time."""
        at = datetime.fromtimestamp(int(ms) // 1000).astimezone().replace(microsecond=int(ms) % 1000 * 1000)
        return "".join(part(at) for part in self._parts)


def _part(match: re.Match[str]) -> Callable[[datetime], str]:
    quoted, lone_quote, letters, letter, other = match.groups()
    if lone_quote:
        raise ValueError("Unterminated quote")
    if letters is None:
        text = other if other is not None else quoted.replace("''", "'") or "'"
        return lambda at: text
    width = len(letters)
    if letter in NUMBERS:
        number = NUMBERS[letter]
        return lambda at: f"{number(at):0{width}d}"
    match letter:
        case "y":
            return lambda at: f"{at.year % 100:02d}" if width == 2 else f"{at.year:0{width}d}"
        case "M" | "L":
            return lambda at: f"{at.month:0{width}d}" if width < 3 else _name(MONTHS[at.month - 1], width)
        case "E":
            return lambda at: _name(DAYS[at.weekday()], width)
        case "a":
            return lambda at: "AM" if at.hour < 12 else "PM"
        case "G":
            return lambda at: "AD"
        case "z" if width < 4:
            return lambda at: at.strftime("%Z")
        case "Z":
            return lambda at: at.strftime("%z")
        case "X" if width <= 3:
            return lambda at: _iso_zone(at, width)
    raise ValueError(f"Illegal pattern character '{letter}'")


def _name(name: str, width: int) -> str:
    return name if width > 3 else name[:3]


def _iso_zone(at: datetime, width: int) -> str:
    text = at.strftime("%z")
    if text == "+0000":
        return "Z"
    return {1: text[:3], 2: text, 3: f"{text[:3]}:{text[3:]}"}[width]
