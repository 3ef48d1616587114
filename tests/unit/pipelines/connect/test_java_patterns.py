"""Patterns of times as Java has them: taken apart, or refused with the letter that is not known."""

from __future__ import annotations

import pytest

from ottla.pipelines.connect.java_patterns import BadPattern, Item, parsed


def plain(text: str) -> Item:
    return Item("", 0, text)


def test_letters_are_counted_and_text_is_plain() -> None:
    assert parsed("yyyy-MM'T'HH''''mm'o''clock'") == [
        Item("y", 4), plain("-"), Item("M", 2), plain("T"), Item("H", 2), plain("'"), plain("'"), Item("m", 2),
        plain("o'clock"),
    ]  # fmt: skip
    assert parsed("") == []


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("yyyy'T", "a quote begins and does not end"), ("YYYY", "the letter Y is not known here"),
        ("XXXX", "an offset from UTC is X, XX or XXX"),
    ],
)  # fmt: skip
def test_what_java_or_we_do_not_know_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(BadPattern, match=said):
        parsed(pattern)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("EEE yyyy", "the letter E cannot be read"), ("yy-MM", "a year of two digits cannot be read"),
        ("dd MMM yyyy", "a month's name cannot be read"), ("hh:mm a", "the letter h cannot be read"),
    ],
)  # fmt: skip
def test_some_letters_are_only_written(pattern: str, said: str) -> None:
    assert parsed(pattern)
    with pytest.raises(BadPattern, match=said):
        parsed(pattern, reads=True)
