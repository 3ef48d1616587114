"""Text as Java makes it, where Java and Python differ: broken UTF-8, doubles, JSON as Jackson writes it.

The dump is compared with the real tool's line by line, and people keep scripts that read it; so the last letter counts.
"""

from __future__ import annotations

import math
import re
from json.encoder import encode_basestring
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

# A surrogate's three bytes, whole or cut: Java takes them for one broken character, Python for one a byte.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()
# An escape, so that an escaped backslash before a `u` is not taken for the start of one.
_ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|.)")


def utf8_text(data: bytes) -> str:
    """The text of `data`, with replacement characters where `new String(data, UTF_8)` has them."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode(errors="replace")


def json_text(value: Json) -> str:
    """Compact JSON, as `JsonNode.toString` gives it."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join([f"{_string(name)}:{json_text(item)}" for name, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([json_text(item) for item in value]) + "]"
    if value is None:
        return "null"
    return double_text(value) if math.isfinite(value) else f'"{double_text(value)}"'


def double_text(value: float) -> str:
    """A double as `Double.toString` gives it: the fewest digits that tell it apart, at least two of them."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    for precision in range(1, 17):
        text = f"{value:.{precision}e}"
        if float(text) == value:
            break
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}E{int(exponent)}"


def _string(text: str) -> str:
    quoted = encode_basestring(text)
    return _ESCAPE.sub(_upper_escape, quoted) if "\\u" in quoted else quoted


def _upper_escape(escape: re.Match[str]) -> str:
    """Jackson writes the digits of an escape in capitals."""
    content = escape[1]
    return f"\\u{content[1:].upper()}" if len(content) > 1 else escape[0]
