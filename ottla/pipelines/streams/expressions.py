"""What a user's function may be: a Spark expression, a function of Columns, or a Python function.

A graph holds these as they were given; only compiling a topology asks Spark what they mean. So a topology is built,
described and drawn without Spark.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.errors import PipelineError


@dataclass(frozen=True, slots=True)
class Python:
    """A function of plain Python values: what it returns, as a Spark type's name ("string", "n INT, at LONG")."""

    function: Callable[..., Any]
    returns: str


def python(function: Callable[..., Any], returns: str = "string") -> Python:
    """Marks a function that takes and returns Python values; without the mark it takes and returns Columns."""
    if not callable(function):
        raise PipelineError(f"python() marks a function, not {function!r}")
    return Python(function, returns)


Expression = str | Python | Callable[..., Any]
"""SQL text over the columns `key`, `value`, `timestamp`; a `python(...)` function; or a function of Columns."""


def arity(function: Callable[..., Any]) -> int:
    """How many arguments a function has to be called with."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1  # a built-in without a signature: str.upper and its kind take one value
    return sum(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in parameters
    )


def check(expression: Expression, what: str) -> Expression:
    """The expression, refused when it can be none: the mistake is told where it is made, not when it runs."""
    if not isinstance(expression, str | Python) and not callable(expression):
        raise PipelineError(f"{what} takes an SQL expression, a function of Columns or python(...), not {expression!r}")
    return expression


def check_python(function: object, what: str) -> Python:
    """A `python(...)` function, where no other will do: it is called with plain values, one record at a time."""
    if not isinstance(function, Python):
        raise PipelineError(
            f"{what} takes a Python function of plain values: mark it with python(function, returns=...)"
        )
    return function
