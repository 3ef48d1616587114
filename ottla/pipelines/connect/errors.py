"""What is wrong with a pipeline file: every problem on a line of its own, with the place and what would be right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from ottla.pipelines.errors import PipelineError


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: where, and what."""

    file: str
    line: int
    """From 1; 0 where there are no lines, as in a Python file."""
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" if self.line else f"{self.file}: {self.message}"


class SpecError(PipelineError):
    """A pipeline file that is not right; `problems` has all that was found, in the order of the lines."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = sorted(problems, key=lambda problem: problem.line)
        super().__init__("\n".join(map(str, self.problems)))


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean x?`, or what there is."""
    names = list(known)
    close = get_close_matches(name, names, 1)
    return f"did you mean {close[0]}?" if close else f"there is {listed(names)}"


def listed(names: Iterable[str], word: str = "and") -> str:
    """`a, b and c`."""
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last
