"""Java's properties text, read as `Properties.load` reads it and written so that it reads the same.

Promises: every form Java allows is read (comments with `#` and `!`, `=`, `:` or a space between name and value, lines
continued with a backslash, escapes), because people write these files by hand and with scripts. What is written is
plain ASCII: Kafka writes `meta.properties` as UTF-8 and reads it as Latin-1, so only escapes survive the round trip.
Called by `storage` for `meta.properties` and by the command line for `server.properties`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_NAME = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SPECIAL = re.compile(r"[\\=:#!\t\n\r\f]|[^\x20-\x7e]")
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPELLINGS = {char: f"\\{letter}" for letter, char in _LETTERS.items()}


class MalformedEscape(ValueError):
    """A `\\u` without four hexadecimal digits behind it, on `line`."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line}: {text!r}")
        self.line = line


def read_properties(text: str) -> dict[str, str]:
    """Names and values in the order of the text; a name that comes twice has its last value, as in Java.

    `text` is the file's bytes as Latin-1, which is how Java reads them. A bad escape raises `MalformedEscape`.
    """
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        name = _NAME.match(line)
        assert name is not None, "the pattern also matches nothing"
        separator = _SEPARATOR.match(line, name.end())
        assert separator is not None, "the pattern also matches nothing"
        properties[_unescape(name.group(), number)] = _unescape(line[separator.end() :], number)
    return properties


def format_property(name: str, value: str) -> str:
    """One line, without its end. What Java would read as something else is escaped: also a value's leading space."""
    escaped_name = _escape(name).replace(" ", "\\ ")
    leading = "\\" if value.startswith(" ") else ""
    return f"{escaped_name}={leading}{_escape(value)}"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their number, comments and blank lines left out, continued lines joined."""
    started = 0
    joined = ""
    lines = _LINE_END.split(text)
    for number, line in enumerate(lines, 1):
        line = line.lstrip(BLANKS)
        if not started:
            if not line or line[0] in "#!":
                continue
            started = number
        # An even number of backslashes at the end are escaped ones; an odd number leaves one that continues the line.
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined += line[:-1]
            if not joined and number < len(lines):
                started = 0  # a backslash alone continues nothing: Java begins anew, and passes over comments again
            continue
        yield started, joined + line
        started = 0
        joined = ""
    if started:
        yield started, joined


def _unescape(text: str, line: int) -> str:
    def replace(escape: re.Match[str]) -> str:
        body = escape.group(1)
        if len(body) == 5:
            return chr(int(body[1:], 16))
        if body == "u":
            raise MalformedEscape(line, text)
        return _LETTERS.get(body, body)

    if "\\" not in text:
        return text
    # A character beyond 16 bits is two escapes; through UTF-16 the halves become one again.
    return _ESCAPE.sub(replace, text).encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def _escape(text: str) -> str:
    def replace(special: re.Match[str]) -> str:
        char = special.group()
        if char in _SPELLINGS:
            return _SPELLINGS[char]
        if " " <= char <= "~":
            return f"\\{char}"
        units = char.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))

    return _SPECIAL.sub(replace, text)
