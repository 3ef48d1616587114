"""Java's properties text. The expected values are what `java.util.Properties` of Java 17 gives for the same text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.properties import MalformedEscape, format_property, read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# a comment\n! another\n\n  \t\n", {}),
        ("a=1\nb: 2\nc 3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("  a  =  1  \n", {"a": "1  "}),
        ("a\t:=1\n", {"a": "=1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\\\n   2\\\n3\n", {"a": "123"}),
        ("a=1\\\\\nb=2\n", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# no comment\n", {"a": "1# no comment"}),
        ("# a comment \\\na=1\n", {"a": "1"}),
        ("a\\ b\\=c=d\n", {"a b=c": "d"}),
        ("a=\\u00e9\\t\\n\\q\n", {"a": "é\t\nq"}),
        ("a=\\uD83D\\uDE00\n", {"a": "😀"}),
        ("a=1\na=2\n", {"a": "2"}),
        ("=1\n", {"": "1"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert read_properties(text) == expected


@pytest.mark.parametrize("text", ["a=\\u12", "x=1\na=\\uzzzz\n", "\\u=1"])
def test_an_escape_without_four_digits_is_refused(text: str) -> None:
    with pytest.raises(MalformedEscape) as caught:
        read_properties(text)
    assert caught.value.line == text.count("\n", 0, text.index("\\")) + 1


def test_what_java_escapes_is_escaped() -> None:
    assert format_property("cluster.id", " a=b:c#d!e\\f\tg z ") == "cluster.id=\\ a\\=b\\:c\\#d\\!e\\\\f\\tg z "
    assert format_property("a b", "é😀") == "a\\ b=\\u00E9\\uD83D\\uDE00"


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_reads_the_same(properties: dict[str, str]) -> None:
    text = "".join(f"{format_property(name, value)}\n" for name, value in properties.items())
    assert text.isascii()
    assert read_properties(text) == properties


@given(st.text(alphabet="ab\\u0 =:#!\t\n\r\f"))
def test_any_text_is_read_or_refused_for_an_escape(text: str) -> None:
    try:
        properties = read_properties(text)
    except MalformedEscape:
        assert "\\u" in text.replace("\\\\", "")
    else:
        assert len(properties) <= len(text)
