"""A function's text says what it does, wherever it stands."""

from __future__ import annotations

import functools
import importlib
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from ottla.pipelines.streams import python
from ottla.pipelines.streams.function_text import said, same
from ottla.pipelines.streams.locator import find_topology


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
    assert same("lambda v: f'{v}' with {'a': 1} -> string", "lambda v: f\"{v}\" with {'a': 1} -> string")
    assert not same("lambda v: f'{v}' with {'a': 1} -> string", "lambda v: f\"{v}\" with {'a': 2} -> string")
    assert not same("lambda value: value -> string", "lambda value: value -> int")
    assert not same("sum(value)", "sum(value * 10)")
    assert not same("nothing that ( parses", "nothing that ) parses")


def rated(rate: Any) -> Callable[[int], int]:
    return lambda value, rate=rate, more=1: value * rate + more  # type: ignore[misc]


def looked_up(rates: Any) -> Callable[[str], Any]:
    return lambda value: rates[value]


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def of_module(rate: float) -> Any:
    """A function of a module of its own, which has a constant; `rate` is also the name of an attribute."""
    module: dict[str, Any] = {"RATE": rate, "rate": 1}
    return FunctionType(by_module.__code__, module)


RATE = 1


def by_module(value: Any) -> Any:
    return [one.rate * RATE for one in value]


class Converter:
    def __init__(self, rate: float) -> None:
        self.rate = rate

    def convert(self, value: float) -> float:
        return value * self.rate

    def __call__(self, value: float) -> float:
        return value / self.rate


@dataclass(frozen=True, slots=True)
class Adding:
    number: int

    def __call__(self, value: int) -> int:
        return value + self.number


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (rated(2), rated(3)),
        (of_module(2), of_module(3)),
        (looked_up({"EUR": 1}), looked_up({"EUR": 2})),
        (looked_up((1, Decimal("2"))), looked_up((1, Decimal("3")))),
        (looked_up(list(range(5000))), looked_up(list(range(5001)))),
        (Converter(2).convert, Converter(3).convert),
        (Converter(2).convert, Converter(2)),
        (Converter(2), Converter(3)),
        (Adding(2), Adding(3)),
        (traced(twice), traced(len)),
        (functools.lru_cache(rated(2)), functools.lru_cache(rated(3))),
        (functools.partial(traced, twice), functools.partial(traced, times)),
        (", ".join, "; ".join),
        (Decimal, int),
        (math.floor, math.ceil),
    ],
)
def test_functions_that_give_something_else_have_other_texts(one: Any, other: Any) -> None:
    """All of these were taken for the same, and went on with the other one's state in silence."""
    assert said(one) is not None
    assert said(one) != said(other)


def test_what_is_captured_is_noted_in_short() -> None:
    text = said(looked_up(list(range(100_000))))
    assert text is not None
    assert len(text) < 1_500
    assert str(said(of_module(2))).endswith(" with {'RATE': 2}"), "an attribute is no constant"


def test_a_variable_without_a_value_yet_is_left_out() -> None:
    def function(value: int) -> int:
        return value + later

    assert str(said(function)).endswith("return value + later")
    later: int = 3
    assert str(said(function)).endswith("return value + later with {'later': 3}")


def test_a_file_that_was_changed_since_is_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "changed_topology.py"
    monkeypatch.syspath_prepend(str(tmp_path))
    path.write_text("def add(value, so_far=None):\n    return value\n")
    module = importlib.import_module("changed_topology")
    path.write_text("def add(other, value, so_far):\n    return other + value\n")
    assert said(module.add) is None


MODULE = """
import functools
from ottla.pipelines.streams import StreamsBuilder, python
from ottla.pipelines.streams.function_text import said

class Counting:
    def __call__(self, key, value, so_far):
        return so_far + 1

    def counted(self, key, value, so_far):
        return so_far + 1

class Whole(int):
    pass

def counted(add, known, key, value, so_far):
    return add(so_far) if key in known else so_far

def one_more(so_far):
    return so_far + 1

FUNCTIONS = [
    Counting(), Counting().counted, Whole,
    functools.partial(counted, one_more, {"a", "b", "c", "d", "e"}), functools.partial(counted, object()),
]

def topology():
    builder = StreamsBuilder()
    builder.stream(" ".join(repr(said(one)) for one in FUNCTIONS).encode().hex()).to("out")
    return builder.build("app")

if __name__ == "__main__":
    print(topology().describe())
"""


def test_a_functions_text_is_the_same_in_every_process_and_for_the_tools(tmp_path: Path) -> None:
    """It had addresses, sets in the order of that process, and the name that the module has as a script."""
    path = tmp_path / "app.py"
    path.write_text(MODULE)
    texts = {
        subprocess.run(
            [sys.executable, str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert texts == {find_topology(str(path)).describe().strip()}


def test_of_two_lambdas_in_a_line_without_columns_none_is_told(tmp_path: Path) -> None:
    """Python's option -X no_debug_ranges leaves them away, and each was taken for the last."""
    path = tmp_path / "script.py"
    path.write_text(
        "from ottla.pipelines.streams.function_text import said\n"
        "PAIR = (lambda value: value + 1, lambda value: value + 2)\n"
        "ONE = lambda value: value\n"
        "print([said(one) for one in (*PAIR, ONE)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "no_debug_ranges", str(path)], check=True, capture_output=True, text=True
    )
    assert done.stdout == "[None, None, 'lambda value: value']\n"


def test_a_module_that_is_loaded_again_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "reloaded_topology.py"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path.write_text("add = lambda value: value + 1\n")
    module = importlib.import_module("reloaded_topology")
    assert said(module.add) == "lambda value: value + 1"
    path.write_text("add = lambda value: value + 200\n")
    assert said(importlib.reload(module).add) == "lambda value: value + 200"
