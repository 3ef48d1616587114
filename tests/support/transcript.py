"""Transcripts: commands and what they print, in a text file that anyone can read and extend.

A line that begins with `> ` is a command; the lines below it, up to a blank line, a comment or the next command, are
what it prints. `#` begins a comment. `pytest --rewrite` puts in what the commands print now.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

TRANSCRIPTS = Path(__file__).parent.parent / "transcripts"

COMMAND = "> "


def transcripts(machine: str) -> list[Path]:
    """The transcripts of a machine, by name."""
    found = sorted((TRANSCRIPTS / machine).glob("*.txt"))
    assert found, f"there are no transcripts for {machine}"
    return found


def commands(text: str) -> list[str]:
    return [line.removeprefix(COMMAND) for line in text.splitlines() if line.startswith(COMMAND)]


def outputs(text: str) -> list[list[str]]:
    """What each command of a transcript prints, in order."""
    blocks: list[list[str]] = []
    is_output = False
    for line in text.splitlines():
        if line.startswith(COMMAND):
            blocks.append([])
            is_output = True
        elif not line or line.startswith("#"):
            is_output = False
        elif is_output:
            blocks[-1].append(line)
    return blocks


def play(text: str, execute: Callable[[str], list[str]]) -> str:
    """The transcript with what `execute` prints for each command in the place of what stood there."""
    played: list[str] = []
    is_output = False
    for line in text.splitlines():
        if line.startswith(COMMAND):
            played.append(line)
            played += execute(line.removeprefix(COMMAND))
            is_output = True
        elif not line or line.startswith("#"):
            played.append(line)
            is_output = False
        else:
            assert is_output, f"{line!r} is neither a comment nor below a command"
    return "\n".join(played) + "\n"


def check(path: Path, execute: Callable[[str], list[str]], *, rewrite: bool) -> None:
    """Play the transcript at `path` and compare, or with `rewrite` write it anew."""
    expected = path.read_text(encoding="utf-8")
    played = play(expected, execute)
    if rewrite:
        path.write_text(played, encoding="utf-8")
    else:
        assert played == expected, f"{path.name} prints something else now; see `pytest --rewrite`"
