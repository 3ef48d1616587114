"""The transcript runner that other tests stand on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.transcript import check, commands, outputs, play

TEXT = "# A comment.\n> say one two\none\ntwo\n> say\n\n# Another.\n> say three\nthree\n"


def say(command: str) -> list[str]:
    return command.split()[1:]


def test_a_transcript_is_commands_and_what_they_print() -> None:
    assert commands(TEXT) == ["say one two", "say", "say three"]
    assert outputs(TEXT) == [["one", "two"], [], ["three"]]
    assert play(TEXT, say) == TEXT


def test_a_command_that_prints_something_else_fails(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text(TEXT.replace("two\n", "too\n", 1))
    with pytest.raises(AssertionError, match=r"words\.txt prints something else now"):
        check(path, lambda _: ["nothing"], rewrite=False)


def test_rewriting_puts_in_what_is_printed_and_keeps_the_comments(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("# A comment.\n> say one two\nwrong\n> say\nwrong\n\n# Another.\n> say three\n")
    check(path, say, rewrite=True)
    assert path.read_text() == TEXT
    check(path, say, rewrite=False)


def test_a_line_that_belongs_to_no_command_is_refused() -> None:
    with pytest.raises(AssertionError, match="neither a comment nor below a command"):
        play("lost\n", say)
