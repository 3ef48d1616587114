"""A function's text says what it does, wherever it stands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from ottla.pipelines.streams import python
from ottla.pipelines.streams.function_text import said, same


def twice(value: int) -> int:
    """Named functions have their names and docstrings in the text."""
    return value * 2


def times(factor: int) -> Callable[[int], int]:
    def by_factor(value: int) -> int:
        return value * factor

    return by_factor


PAIR = (lambda value: value + 1, lambda value: sorted([value], key=lambda one: -one))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (" value * 10 ", "value * 10"),
        (lambda value:  value*2, "lambda value: value * 2"),
        (python(lambda value: value, "int"), "lambda value: value -> int"),
        (PAIR[0], "lambda value: value + 1"),
        (PAIR[1], "lambda value: sorted([value], key=lambda one: -one)"),
        (times(3), "def by_factor(value: int) -> int:\n    return value * factor with {'factor': 3}"),
        (functools.partial(times(3), 4), "partial(def by_factor(value: int) -> int:\n    return value * factor with "
         "{'factor': 3}, (4,), {})"),
        (len, "builtins.len"),
        (eval("lambda value: value"), None),
    ],
)  # fmt: skip
def test_an_expressions_text(expression: Any, text: str | None) -> None:
    assert said(expression) == text


def test_a_named_function_is_found_by_its_line() -> None:
    text = said(twice)
    assert text is not None
    assert text.startswith("def twice(value: int) -> int:")
    assert text.endswith("return value * 2")


def test_the_same_function_written_by_another_python_is_the_same() -> None:
    assert same("lambda value: f'{value}' -> string", 'lambda value: f"{value}" -> string')
    assert not same("lambda value: value -> string", "lambda value: value -> int")
    assert not same("sum(value)", "sum(value * 10)")
    assert not same("nothing that ( parses", "nothing that ) parses")
