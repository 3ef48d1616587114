"""Times as text by patterns of Java's `SimpleDateFormat`, in UTC, as expressions of Spark over milliseconds.

Promises: what `formatted` writes and `read` reads is what `SimpleDateFormat` with the time zone UTC, leniency on and
the locale en-US writes and reads, for years 1583 to 9999: too large a month or hour carries over, and what stands after
the pattern's end is not looked at. Spark's own functions know other patterns, use the session's time zone, and raise or
refuse what Java takes. Called by `java_values` and `smt`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ottla.pipelines.connect.java_patterns import Item, parsed

if TYPE_CHECKING:
    from pyspark.sql import Column

DAY_MS = 86_400_000
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_DIGITS_MAX = 9
"""More digits are no number that a time could have in it, and would overflow in the sum."""


def formatted(ms: Column, pattern: str) -> Column:
    """Milliseconds since 1970 as text."""
    day = F.date_from_unix_date(F.floor(ms / DAY_MS).try_cast("int"))
    in_day = F.pmod(ms, F.lit(DAY_MS).cast("bigint")).cast("int")
    return F.concat(F.lit(""), *(_written(item, day, in_day) for item in parsed(pattern)))


def _written(item: Item, day: Column, ms: Column) -> Column:
    hour = F.floor(ms / 3_600_000).cast("int")
    match item.letter:
        case "":
            return F.lit(item.text)
        case "y":
            return _digits(F.year(day) % 100, 2) if item.count == 2 else _digits(F.year(day), item.count)
        case "M":
            if item.count < 3:
                return _digits(F.month(day), item.count)
            return _name(_MONTHS, F.month(day), is_short=item.count == 3)
        case "d":
            return _digits(F.dayofmonth(day), item.count)
        case "D":
            return _digits(F.dayofyear(day), item.count)
        case "E":
            return _name(_DAYS, F.dayofweek(day), is_short=item.count < 4)
        case "H":
            return _digits(hour, item.count)
        case "k":
            return _digits((hour + 23) % 24 + 1, item.count)
        case "K":
            return _digits(hour % 12, item.count)
        case "h":
            return _digits((hour + 11) % 12 + 1, item.count)
        case "a":
            return F.when(hour < 12, F.lit("AM")).otherwise(F.lit("PM"))
        case "m":
            return _digits(F.floor(ms / 60_000).cast("int") % 60, item.count)
        case "s":
            return _digits(F.floor(ms / 1_000).cast("int") % 60, item.count)
        case "S":
            return _digits(ms % 1_000, item.count)
        case "X":
            return F.lit("Z")
        case "Z":
            return F.lit("+0000")
        case letter:
            assert letter == "z", f"{letter} is among the letters and not here"
            return F.lit("UTC" if item.count < 4 else "Coordinated Universal Time")


def _digits(number: Column, count: int) -> Column:
    return F.lpad(number.cast("string"), F.greatest(F.length(number.cast("string")), F.lit(count)), F.lit("0"))


def _name(names: Sequence[str], index: Column, *, is_short: bool) -> Column:
    """The name of that place, from 1."""
    return F.element_at(F.array(*(F.lit(name[:3] if is_short else name) for name in names)), index)


def read(text: Column, pattern: str) -> Column:
    """The milliseconds that a text says; null where the pattern does not fit."""
    items = parsed(pattern, reads=True)
    expression, letters = _expression(items)
    fits = text.rlike(expression)
    found: dict[str, Column] = {}
    for index, letter in enumerate(letters, 1):
        # Whichever comes later in the pattern counts, as in Java.
        found[letter] = F.regexp_extract(text, expression, index)

    def number(letter: str, otherwise: int) -> Column:
        value = found.get(letter)
        return F.lit(otherwise).cast("bigint") if value is None else value.try_cast("bigint")

    months = number("y", 1970) * 12 + number("M", 1) - 1
    year = F.floor(months / 12).cast("bigint")
    month = (F.pmod(months, F.lit(12)) + 1).cast("int")
    # Beyond these years Spark has no dates, and would raise.
    safe_year = F.when(year.between(1, 9999), year.cast("int"))
    day = F.unix_date(F.make_date(safe_year, month, F.lit(1))).cast("bigint")
    ms = (day + number("d", 1) - 1) * DAY_MS + number("H", 0) * 3_600_000 + number("m", 0) * 60_000
    ms = ms + number("s", 0) * 1_000 + number("S", 0)
    for letter in ("X", "Z"):
        if letter in found:
            ms = ms - _offset_ms(found[letter])
    return F.when(fits, ms)


def _expression(items: Sequence[Item]) -> tuple[str, list[str]]:
    """What finds a time's parts in a text, and the letters of its groups."""
    expression, letters = r"\A", []
    for index, item in enumerate(items):
        following = items[index + 1] if index + 1 < len(items) else Item("", 0)
        if item.letter in ("X", "Z"):
            expression += r"(Z|[+-]\d{2}:?\d{2}|[+-]\d{2})" if item.letter == "X" else r"([+-]\d{2}:?\d{2}|GMT|UTC)"
            letters.append(item.letter)
        elif item.letter:
            # A number that stands right before another takes as many digits as it has letters.
            meets_number = following.letter not in ("", "X", "Z")
            if meets_number:
                expression += rf"\s*(\d{{{item.count}}})"
            else:
                expression += rf"\s*(-?\d{{1,{_DIGITS_MAX}}})(?!\d)"
            letters.append(item.letter)
        else:
            expression += re.escape(item.text)
    return f"(?s){expression}", letters


def _offset_ms(offset: Column) -> Column:
    sign = F.when(offset.startswith("-"), F.lit(-1)).otherwise(F.lit(1))
    digits = F.regexp_replace(offset, "[^0-9]", "")
    hours = F.coalesce(F.substring(digits, 1, 2).try_cast("bigint"), F.lit(0))
    minutes = F.coalesce(F.substring(digits, 3, 2).try_cast("bigint"), F.lit(0))
    return sign * (hours * 3_600_000 + minutes * 60_000)
