"""What a user's expression says, as text: to tell an expression that has changed from one that has only moved.

Promises: the text does not change with a function's place, its comments and the spaces in it, nor with the process; it
has the data that the function takes from around it, from its object or as a default, and no more of what it calls than
the name. None where a function has no source to read, as in a prompt. No Spark. Called by `shape`.
"""

from __future__ import annotations

import ast
import datetime
import dis
import functools
import hashlib
import inspect
import linecache
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from types import BuiltinMethodType, CodeType, FunctionType, MethodType
from typing import Any

from ottla.pipelines.streams.expressions import Expression, Python

PLAIN = (str, int, float, bool, bytes, type(None), Decimal, datetime.date, datetime.time, datetime.timedelta)
"""What `repr` tells in full, and alike in every process."""
DEPTH_MAX = 8
"""How deep lists and dictionaries are looked into."""
DATA_MAX = 1_000
"""Characters of one value; of a longer one there is a digest."""
WITH = " with {"
"""What stands between a function's source and its data."""
LOADED = "_ottla_topology_"
"""How the name begins that a file's module has when a tool loads it (`locator`)."""
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
    for cut in (len(function), *(found.start() for found in re.finditer(re.escape(WITH), function))):
        source, data = function[:cut], function[cut:]
        try:
            return f"{ast.dump(ast.parse(source))}{data}{rest}"
        except SyntaxError:
            continue  # the data is no part of the source: that ends before it
    return None


def _function(function: Callable[..., Any]) -> str | None:
    match function:
        case functools.partial():
            parts = [_function(function.func), _given(function.args), _given(function.keywords)]
            return None if None in parts else f"partial({', '.join(map(str, parts))})"
        case MethodType():
            return _of_object(_function(function.__func__), function.__self__)
        case BuiltinMethodType() if isinstance(function.__self__, PLAIN):
            return f"{function.__self__!r}.{function.__name__}"
        case FunctionType():
            return _of_source(function)
    call = None if isinstance(function, type) else inspect.getattr_static(type(function), "__call__", None)
    if isinstance(call, FunctionType):
        return _of_object(_function(call), function)
    wrapped = getattr(function, "__wrapped__", None)  # as by functools.lru_cache
    if wrapped is not None:
        return _function(wrapped)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", "")
    return name if module == "__main__" or str(module).startswith(LOADED) else f"{module}.{name}"


def _of_source(function: FunctionType) -> str | None:
    found = _definition(function.__code__)
    if found is None or not _is_source(found, function):
        return None
    values = {**_globals(function), **_nonlocals(function), **dict(_defaults(function, found))}
    text = _with(ast.unparse(found), values)
    wrapped = getattr(function, "__wrapped__", None)  # what a decorator was put on: it is all the user sees
    if wrapped is None:
        return text
    inner = _function(wrapped)
    return None if inner is None else f"{text} of {inner}"


def _is_source(found: Defined, function: FunctionType) -> bool:
    """Whether the arguments are those of the function; they may not be when the file was changed after it was read."""
    code, args = function.__code__, found.args
    names = [one.arg for one in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return names == list(code.co_varnames[: len(names)]) and len(args.defaults) == len(function.__defaults__ or ())


def _globals(function: FunctionType) -> dict[str, Any]:
    """What it takes from its module; the module's own name is another one when a tool loads it."""
    names = {name for name in _loaded(function.__code__) if not name.startswith("__")}
    return {name: function.__globals__[name] for name in names if name in function.__globals__}


def _loaded(code: CodeType) -> Iterator[str]:
    for one in dis.get_instructions(code):
        if one.opname == "LOAD_GLOBAL":
            yield one.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _loaded(inner)


def _nonlocals(function: FunctionType) -> dict[str, Any]:
    """What it takes from the functions around it, as far as they have given it a value by now."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # assigned later, so it is no value of now
    return found


def _defaults(function: FunctionType, found: Defined) -> Iterator[tuple[str, Any]]:
    """The arguments whose defaults the source does not tell, as in `lambda value, rate=rate: ...`."""
    args = found.args
    names = [one.arg for one in (*args.posonlyargs, *args.args)]
    given = list(zip(reversed(names), reversed(args.defaults), reversed(function.__defaults__ or ()), strict=False))
    by_name = function.__kwdefaults__ or {}
    for keyword, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if default is not None and keyword.arg in by_name:
            given.append((keyword.arg, default, by_name[keyword.arg]))
    for name, default, value in given:
        if not isinstance(default, ast.Constant):
            yield name, value


def _of_object(text: str | None, owner: object) -> str | None:
    """A method's text, with the data of its object."""
    if text is None or isinstance(owner, type):
        return text
    slots = [name for kind in type(owner).__mro__ for name in getattr(kind, "__slots__", ())]
    return _with(text, {**{name: getattr(owner, name, None) for name in slots}, **getattr(owner, "__dict__", {})})


def _with(text: str, values: Mapping[str, Any]) -> str:
    """A text, and what of the values is data."""
    told = {name: _data(value) for name, value in sorted(values.items())}
    listed = ", ".join(f"{name!r}: {data}" for name, data in told.items() if data is not None)
    return f"{text}{WITH}{listed}}}" if listed else text


def _given(value: Any) -> str | None:
    """What a partial function is given: data and functions. None when something of it is neither."""
    return _data(value, functions=True)


def _data(value: Any, depth: int = 0, *, functions: bool = False) -> str | None:
    """Data as text, in short; None for what is no data."""
    text = _data_text(value, depth, functions=functions)
    if text is None or depth > 0 or len(text) <= DATA_MAX:
        return text
    return f"<{len(text)} characters, {hashlib.sha256(text.encode()).hexdigest()}>"


def _data_text(value: Any, depth: int, *, functions: bool) -> str | None:
    if isinstance(value, PLAIN):
        return repr(value)
    if functions and callable(value):
        return _function(value)
    if depth >= DEPTH_MAX or not isinstance(value, tuple | list | dict | set | frozenset):
        return None
    inside = functools.partial(_data, depth=depth + 1, functions=functions)
    if isinstance(value, dict):
        pairs = [(inside(key), inside(one)) for key, one in value.items()]
        return (
            None if any(None in pair for pair in pairs) else f"{{{', '.join(f'{key}: {one}' for key, one in pairs)}}}"
        )
    parts = [inside(one) for one in value]
    if None in parts:
        return None
    listed = ", ".join(map(str, sorted(map(str, parts)) if isinstance(value, set | frozenset) else parts))
    if isinstance(value, tuple):
        return f"({listed},)" if len(parts) == 1 else f"({listed})"
    return f"[{listed}]" if isinstance(value, list) else f"{{{listed}}}"


def _definition(code: CodeType) -> Defined | None:
    """The function's part of its file; of several lambdas in a line, the one in whose place the code stands."""
    linecache.checkcache(code.co_filename)  # a module that was loaded again may say something else
    lines = linecache.getlines(code.co_filename)
    tree = _parsed("".join(lines)) if lines else None
    if tree is None:
        return None
    if code.co_name != "<lambda>":
        named = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == code.co_name]
        return next((node for node in named if _first_line(node) == code.co_firstlineno), None)
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno]
    if not places and len(lambdas) > 1:
        return None  # Python was told to leave columns away
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
