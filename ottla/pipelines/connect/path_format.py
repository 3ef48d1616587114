"""The pattern that names directories after a time: `'dt'=yyyy-MM-dd/'hour'=HH`.

The words are those of `path.format` of Confluent's TimeBasedPartitioner, which reads them by Joda-Time: text in quotes
stands for itself, `Y` is the year as `y` is, and a letter as often as it stands is the number with at least so many
digits. A directory is `name=value` here, because Spark's file sinks know no other. Nothing here imports Spark. Called
by `spec` and `partitions`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from zoneinfo import available_timezones

LETTERS = {"y": "year", "Y": "year", "M": "month", "d": "day", "D": "day of the year", "H": "hour", "m": "minute",
           "s": "second"}  # fmt: skip
"""What a letter stands for. All are numbers: names of months and days are of a language."""
_QUOTED = re.compile(r"'((?:[^']|'')*)'")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_OFFSET = re.compile(r"[+-](?:0\d|1[0-8]):[0-5]\d")
DAY_S = 86_400


class PatternError(ValueError):
    """A pattern that names no directories."""


@dataclass(frozen=True, slots=True)
class Number:
    """A part of a time: how its letter was given, and how often."""

    letter: str
    width: int


@dataclass(frozen=True, slots=True)
class Directory:
    """One level: the name of its column, and what makes its value."""

    name: str
    value: tuple[str | Number, ...]


def directories(pattern: str) -> list[Directory]:
    """The levels that a pattern has; `PatternError` says what is wrong with it."""
    levels: list[list[str | Number]] = [[]]
    for part in _parts(pattern):
        if isinstance(part, Number):
            levels[-1].append(part)
            continue
        first, *more = part.split("/")
        levels[-1].append(first)
        levels += [[text] for text in more]
    if len(levels) > 1 and not any(levels[-1]):
        levels.pop()  # a slash at the end says nothing
    found = [_directory(level) for level in levels]
    names = [one.name.lower() for one in found]
    for name in names:
        if names.count(name) > 1:
            raise PatternError(f"two directories are named {name}")
    return found


def is_timezone(name: str) -> bool:
    """Whether it is a zone by its name, or an offset such as +02:00; by the system's own list, where it has one."""
    known = available_timezones()
    return name in known or _OFFSET.fullmatch(name) is not None or (not known and bool(name))


def divides_a_day(seconds: float) -> bool:
    """Whether days are made of such times, so that rounding down to one never reaches the day before."""
    return seconds >= 1 and DAY_S % seconds == 0


def _directory(level: list[str | Number]) -> Directory:
    name, value = "", list(level)
    while value and isinstance(first := value.pop(0), str):
        text, equals, rest = first.partition("=")
        name += text
        if equals:
            value.insert(0, rest)
            break
    else:
        raise PatternError("each directory is a name in quotes, =, and letters of a time, such as 'dt'=yyyy-MM-dd")
    if not _NAME.fullmatch(name):
        raise PatternError(f"a directory has a name such as 'dt' before its =, and not {name!r}")
    kept = tuple(part for part in value if part)
    if not any(isinstance(part, Number) for part in kept):
        raise PatternError(f"the directory {name} has no letter of a time after its =")
    return Directory(name, kept)


def _parts(pattern: str) -> list[str | Number]:
    """Text and numbers in their order; text that stands together is one."""
    found: list[str | Number] = []
    at = 0

    def add(text: str) -> None:
        if found and isinstance(found[-1], str):
            found[-1] += text
        else:
            found.append(text)

    while at < len(pattern):
        if pattern[at] == "'":
            quoted = _QUOTED.match(pattern, at)
            if quoted is None:
                raise PatternError("a quote is not closed")
            add(quoted[1].replace("''", "'") or "'")
            at = quoted.end()
            continue
        letter, run = next((key, len(list(group))) for key, group in groupby(pattern[at:]))
        if letter in LETTERS:
            if letter == "M" and run > 2:
                raise PatternError(f"{letter * run} is the name of a month, which is of a language: MM is its number")
            found.append(Number(letter, run))
            at += run
        elif letter.isalpha():
            raise PatternError(f"{letter * run} is no part of a time: there is {' '.join(LETTERS)}, and text in quotes")
        else:
            add(letter)
            at += 1
    return found
