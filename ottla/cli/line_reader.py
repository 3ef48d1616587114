"""Records out of lines: what `ottla console-producer` makes of what it is given, as Kafka's LineMessageReader does.

A line is `headers TAB key TAB value` as far as `parse.headers` and `parse.key` ask for it; every separator is a
setting. What does not fit is a `BadLine`, unless `ignore.error` says to make the best of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

Header = tuple[str, bytes | None]


class BadLine(Exception):
    """Why a line is not a record, or why the settings make no sense together."""


class Line(NamedTuple):
    """A record to be written."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]


class LineReader:
    """Parses lines one after another, and counts them."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._parses_key = _is_true(settings.get("parse.key"))
        self._parses_headers = _is_true(settings.get("parse.headers"))
        self._ignores_errors = _is_true(settings.get("ignore.error"))
        self._key_separator = settings.get("key.separator", "\t")
        self._headers_delimiter = settings.get("headers.delimiter", "\t")
        self._headers_separator = settings.get("headers.separator", ",")
        self._header_key_separator = settings.get("headers.key.separator", ":")
        self._null = settings.get("null.marker")
        self._line_number = 0
        self._check()

    def _check(self) -> None:
        marks = {
            "headers.delimiter": self._headers_delimiter,
            "headers.separator": self._headers_separator,
            "headers.key.separator": self._header_key_separator,
        }
        for one, other in (
            ("headers.delimiter", "headers.separator"),
            ("headers.delimiter", "headers.key.separator"),
            ("headers.separator", "headers.key.separator"),
        ):
            if marks[one] == marks[other]:
                raise BadLine(f"{one} and {other} may not be equal")
        for name, mark in {"key.separator": self._key_separator, **marks}.items():
            if mark == self._null:
                raise BadLine(f"null.marker and {name} may not be equal")

    def parse(self, line: str) -> Line:
        """The record of the next line."""
        self._line_number += 1
        headers, rest = self._cut(self._parses_headers, line, line, self._headers_delimiter, "headers delimiter")
        key, value = self._cut(self._parses_key, line, rest, self._key_separator, "key separator")
        return Line(
            None if key is None else self._bytes(key),
            self._bytes(value),
            [] if headers is None or headers == self._null else self._split_headers(headers),
        )

    def _cut(self, is_wanted: bool, line: str, rest: str, mark: str, name: str) -> tuple[str | None, str]:
        """What is before the mark, and what is behind it."""
        if not is_wanted:
            return None, rest
        before, found, behind = rest.partition(mark) if mark else ("", "yes", rest)
        if found:
            return before, behind
        if self._ignores_errors:
            return None, rest
        raise BadLine(f"No {name} found on line number {self._line_number}: '{line}'")

    def _split_headers(self, text: str) -> list[Header]:
        pairs = re.split(self._headers_separator, text)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()  # Java's split leaves empty ends out
        return [self._header(pair) for pair in pairs]

    def _header(self, pair: str) -> Header:
        name, found, value = pair.partition(self._header_key_separator)
        if not found:
            if self._ignores_errors:
                return pair, None
            raise BadLine(f"No header key separator found in pair '{pair}' on line number {self._line_number}")
        if name == self._null:
            raise BadLine(f"Header keys should not be equal to the null marker '{self._null}' as they can't be null")
        return name, self._bytes(value)

    def _bytes(self, text: str) -> bytes | None:
        return None if text == self._null else text.encode()


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"
