"""What is wrong with a statement, and where."""

from __future__ import annotations

from ottla.pipelines.errors import PipelineError


class SqlError(PipelineError):
    """A statement that cannot be run; the message says what would be right."""


class SyntaxProblem(SqlError):
    """Text that is no statement. `line` and `column` begin at 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line = line
        self.column = column


class Unfinished(SyntaxProblem):
    """Text that ends within a string or a comment: at a prompt, more of it may follow."""
