"""Puts rows on the terminal: what the files hold on the output, what is wrong with them on the error stream."""

from __future__ import annotations

from typing import BinaryIO

from ottla.cli.dump.row import ERROR, HEADING, Row, row_json, row_text


class Printer:
    """Prints UTF-8 whatever the terminal's locale, so that a dump can be compared with one from another machine."""

    def __init__(self, output: BinaryIO, errors: BinaryIO, *, is_json: bool) -> None:
        self._output = output
        self._errors = errors
        self._is_json = is_json
        self.has_failed = False
        """Whether something could not be read."""

    def show(self, path: str, row: Row) -> None:
        """A row of the file at `path`."""
        if row.kind == ERROR:
            self.has_failed = True
            self._complain(row_text(row))
        elif not self._is_json:
            self._write(row_text(row))
        elif row.kind != HEADING:
            self._write(row_json(path, row))

    def show_finding(self, path: str, row: Row) -> None:
        """What is remarkable about the file at `path` goes where Kafka's tool writes it; a script reads one stream."""
        if self._is_json:
            self.show(path, row)
        else:
            self._complain(row_text(row))

    def flush(self) -> None:
        self._output.flush()

    def _write(self, line: str) -> None:
        self._output.write(_encoded(line))

    def _complain(self, line: str) -> None:
        self._output.flush()  # so that a terminal shows both streams in their order
        self._errors.write(_encoded(line))
        self._errors.flush()


def _encoded(line: str) -> bytes:
    # A path that is not UTF-8 is printed with the bytes it was given in.
    return line.encode(errors="surrogateescape") + b"\n"
