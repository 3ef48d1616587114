"""Patterns of times as Java's `SimpleDateFormat` has them, taken apart: letters that say something, and plain text.

`parsed` knows the letters that `java_dates` can write and read, and names the first that it does not know. Nothing here
imports Spark. Called by `smt_check` and `java_dates`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

LETTERS = {
    "y": "year", "M": "month", "d": "day of the month", "D": "day of the year", "H": "hour", "k": "hour from 1 to 24",
    "h": "hour from 1 to 12", "K": "hour from 0 to 11", "a": "AM or PM", "m": "minute", "s": "second",
    "S": "millisecond", "E": "day of the week", "X": "offset from UTC", "Z": "offset from UTC", "z": "time zone",
}  # fmt: skip
READ = "yMdHmsSXZ"
"""Letters of times that are read; the others are for times that are written."""


class BadPattern(Exception):
    """A pattern that Java does not know, or that has a letter beyond these; the message says which."""


@dataclass(frozen=True, slots=True)
class Item:
    """A letter, so many times, or a piece of plain text."""

    letter: str
    count: int
    text: str = ""


def parsed(pattern: str, *, reads: bool = False) -> list[Item]:
    """The items of a pattern; with `reads`, those by which a time can be read."""
    items: list[Item] = []
    position = 0
    while position < len(pattern):
        one = pattern[position]
        if one == "'":
            position, plain = _quoted(pattern, position + 1)
            items.append(Item("", 0, plain))
        elif one.isascii() and one.isalpha():
            count = len(next(list(run) for _, run in groupby(pattern[position:])))
            _known(one, count, reads=reads)
            items.append(Item(one, count))
            position += count
        else:
            items.append(Item("", 0, one))
            position += 1
    return items


def _quoted(pattern: str, position: int) -> tuple[int, str]:
    """What stands from here to the next quote; two quotes are one, inside and alone."""
    if pattern[position : position + 1] == "'":
        return position + 1, "'"
    found = ""
    while position < len(pattern):
        if pattern[position] == "'":
            if pattern[position + 1 : position + 2] != "'":
                return position + 1, found
            position += 1
        found += pattern[position]
        position += 1
    raise BadPattern("a quote begins and does not end")


def _known(letter: str, count: int, *, reads: bool) -> None:
    if letter not in LETTERS:
        known = ", ".join(f"{one} ({said})" for one, said in LETTERS.items())
        raise BadPattern(f"the letter {letter} is not known here: there is {known}")
    if letter == "X" and count > 3:
        raise BadPattern("an offset from UTC is X, XX or XXX")
    if reads and letter not in READ:
        raise BadPattern(f"the letter {letter} cannot be read, only written: letters that are read are {READ}")
    if reads and letter == "y" and count < 3:
        raise BadPattern("a year of two digits cannot be read, because nothing says which century: write yyyy")
    if reads and letter == "M" and count > 2:
        raise BadPattern("a month's name cannot be read: MM is its number")
