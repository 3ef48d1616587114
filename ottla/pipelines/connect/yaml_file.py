"""A YAML file as plain values that know the line they stand on.

Promises: a mapping with a name twice, a name that is no text and a file that is no YAML are `SpecError`s with the line;
`${env:NAME}` in any text is the variable of the environment, and one that is not set is an error too. Called by `spec`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.pipelines.connect.errors import Problem, SpecError
from ottla.pipelines.errors import MissingDependency

Path = tuple[str | int, ...]
"""Where a value stands in the file: `("transforms", 0, "mask")`."""

_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Lines:
    """Which line a value stands on; a place that has none of its own stands where its parent does."""

    file: str
    of: Mapping[Path, int] = field(default_factory=dict)

    def problem(self, path: Path, message: str) -> Problem:
        line = 0
        for size in range(len(path), -1, -1):
            line = self.of.get(path[:size], 0)
            if line:
                break
        return Problem(self.file, line, message)


def read_yaml(text: str, file: str, environment: Mapping[str, str] | None = None) -> tuple[object, Lines]:
    """The values of a file, and their lines."""
    try:
        import yaml
    except ImportError:
        raise MissingDependency("reading a YAML file needs PyYAML: pip install 'ottla[spark]'") from None

    try:
        # The C loader where there is one: a file is read to validate it, and that is to be felt as at once.
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise SpecError([Problem(file, mark.line + 1 if mark else 0, f"not YAML: {error.problem}")]) from None
    except yaml.YAMLError as error:
        raise SpecError([Problem(file, 0, f"not YAML: {str(error).splitlines()[0]}")]) from None
    problems: list[Problem] = []
    lines: dict[Path, int] = {}
    constructor = yaml.SafeLoader("")
    variables = os.environ if environment is None else environment

    def value_of(node: yaml.Node | None, path: Path) -> object:
        if node is None:
            return None
        line = node.start_mark.line + 1
        lines.setdefault(path, line)
        if isinstance(node, yaml.MappingNode):
            found: dict[str, object] = {}
            for key, child in node.value:
                at = key.start_mark.line + 1
                if not isinstance(key, yaml.ScalarNode):
                    problems.append(Problem(file, at, "a name has to be text"))
                    continue
                name = str(key.value)
                if name in found:
                    first = lines[(*path, name)]
                    problems.append(Problem(file, at, f"{name} is here twice; the first is on line {first}"))
                    continue
                lines[(*path, name)] = at
                found[name] = value_of(child, (*path, name))
            return found
        if isinstance(node, yaml.SequenceNode):
            return [value_of(child, (*path, index)) for index, child in enumerate(node.value)]
        if node.tag == "tag:yaml.org,2002:timestamp":
            return str(node.value)  # a date is text here: Spark reads it by its own rules
        try:
            value: object = constructor.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            problems.append(Problem(file, line, f"not a value: {str(error).splitlines()[0]}"))
            return None
        return expanded(value, line) if isinstance(value, str) else value

    def expanded(text: str, line: int) -> str:
        def variable(found: re.Match[str]) -> str:
            name = found.group(1)
            if name not in variables:
                problems.append(Problem(file, line, f"the environment has no {name}, and ${{env:{name}}} asks for it"))
                return ""
            return variables[name]

        return _VARIABLE.sub(variable, text)

    value = value_of(root, ())
    if problems:
        raise SpecError(problems)
    return value, Lines(file, lines)
