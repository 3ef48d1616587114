"""What a user's expression says, as text: to tell an expression that has changed from one that has only moved.

Promises: the text does not change with a function's place, its comments and the spaces in it, nor with the process; it
has the plain values that the function takes from around it, and no more of what it calls than the name. None where a
function has no source to read, as in a prompt. No Spark. Called by `shape`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from ottla.pipelines.streams.expressions import Expression, Python

PLAIN = (str, int, float, bool, bytes, type(None))
Defined = ast.Lambda | ast.FunctionDef
FILES_MAX = 32
"""How many files are kept parsed."""


def said(expression: Expression) -> str | None:
    """An expression's text: SQL as it was given, a function by its source."""
    if isinstance(expression, str):
        return expression.strip()
    if isinstance(expression, Python):
        text = _function(expression.function)
        return None if text is None else f"{text} -> {expression.returns}"
    return _function(expression)


def same(was: str, now: str) -> bool:
    """Whether two texts say the same. Python's versions write the same function in slightly different ways."""
    if was == now:
        return True
    trees = [_tree(text) for text in (was, now)]
    return trees[0] is not None and trees[0] == trees[1]


def _tree(text: str) -> str | None:
    function, _, rest = text.rpartition(" -> ") if " -> " in text else (text, "", "")
    try:
        return f"{ast.dump(ast.parse(function))}{rest}"
    except SyntaxError:
        return None


def _function(function: Callable[..., Any]) -> str | None:
    if isinstance(function, functools.partial):
        inner = _function(function.func)
        return None if inner is None else f"partial({inner}, {function.args!r}, {function.keywords!r})"
    if not isinstance(function, FunctionType):
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return f"{getattr(function, '__module__', '')}.{name}"
    found = _definition(function.__code__)
    if found is None:
        return None
    around = inspect.getclosurevars(function).nonlocals
    values = {name: value for name, value in sorted(around.items()) if isinstance(value, PLAIN)}
    return ast.unparse(found) + (f" with {values}" if values else "")


def _definition(code: CodeType) -> Defined | None:
    """The function's part of its file; of several lambdas in a line, the one in whose place the code stands."""
    lines = linecache.getlines(code.co_filename)
    tree = _parsed("".join(lines)) if lines else None
    if tree is None:
        return None
    if code.co_name != "<lambda>":
        named = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == code.co_name]
        return next((node for node in named if _first_line(node) == code.co_firstlineno), None)
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno]
    around = [node for node in lambdas if all(_begin(node) <= place < _end(node) for place in places)]
    return max(around, key=_begin, default=None)  # one within another begins later


@functools.lru_cache(maxsize=FILES_MAX)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except SyntaxError:
        return None


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _begin(node: ast.Lambda) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.Lambda) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset
