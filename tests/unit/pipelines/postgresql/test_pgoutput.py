"""What a real PostgreSQL 15 sent (`record`), decoded, and as records of the spool; and the same bytes damaged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.pipelines.connect.changes import Changes, SchemaChanged, Settings, copied_row
from ottla.pipelines.postgresql.catalog import Column, Table
from ottla.pipelines.postgresql.messages import ProtocolError
from ottla.pipelines.postgresql.pgoutput import (
    Keepalive,
    Message,
    Relation,
    XLogData,
    decoded,
    lsn_of,
    lsn_text,
    replication_message,
    status_update,
)
from ottla.pipelines.postgresql.types import PgType, Types
from tests.support.mutation import mutations, truncations
from tests.support.transcript import check, commands, transcripts

TYPES = Types({
    23: PgType(23, "int4", "b", "N", 0, 0, -1),
    25: PgType(25, "text", "b", "S", 0, 0, -1),
    1009: PgType(1009, "_text", "b", "A", 25, 0, -1),
    1082: PgType(1082, "date", "b", "D", 0, 0, -1),
    1700: PgType(1700, "numeric", "b", "N", 0, 0, -1),
})  # fmt: skip
LONG = re.compile(r"(long){20,}")
"""The values that are large enough for TOAST."""


def table(name: str, key: tuple[str, ...], identity: str, columns: dict[str, tuple[int, int]]) -> Table:
    made = tuple(Column(one, oid, mod, TYPES.spark(oid, mod), TYPES.name(oid)) for one, (oid, mod) in columns.items())
    return Table(0, "public", name, identity, False, made, key)


PEOPLE = {"id": (23, -1), "name": (25, -1), "price": (1700, (9 << 16 | 2) + 4), "note": (25, -1), "tags": (1009, -1)}
TABLES = [
    table("people", ("id",), "d", PEOPLE),
    table("whole", (), "f", {"a b": (23, -1), "note": (25, -1)}),
    table("by_index", ("b", "a"), "i", {"a": (23, -1), "b": (23, -1), "v": (25, -1)}),
]


class Player:
    """A stream that is read from its first message on."""

    def __init__(self) -> None:
        self.checked: list[str] = []
        settings = Settings("shop", "db", "1", skipped=frozenset())
        self._changes = Changes(settings, TYPES, 0, lambda: 1700000000000, tables=TABLES, check=self._check)

    def _check(self, relation: Relation) -> Types:
        self.checked.append(relation.name)
        return TYPES

    def execute(self, command: str) -> list[str]:
        message = replication_message(bytes.fromhex(command))
        if isinstance(message, Keepalive):
            return [repr(message)]
        found = decoded(message.data)
        before = len(self.checked)
        lines = [line.decode().rstrip("\n") for line in self._changes.lines(found, message.lsn)]
        told = [f"the catalog is asked about {name}" for name in self.checked[before:]]
        printed = [repr(found), *told, *(line.replace("\t", " | ") for line in lines)]
        return [LONG.sub("long...", line) for line in printed]


@pytest.mark.parametrize("path", transcripts("pgoutput"), ids=lambda path: path.stem)
def test_what_postgresql_sent_is_decoded(path: Path, request: pytest.FixtureRequest) -> None:
    check(path, Player().execute, rewrite=request.config.getoption("--rewrite"))


def recorded() -> Iterator[bytes]:
    for path in transcripts("pgoutput"):
        for command in commands(path.read_text(encoding="utf-8")):
            yield bytes.fromhex(command)


def whole(data: bytes) -> Message:
    """What a replication message carries."""
    message = replication_message(data)
    assert isinstance(message, XLogData), "keepalives are not recorded"
    return decoded(message.data)


def test_every_message_that_is_cut_short_is_refused() -> None:
    for data in recorded():
        short = data.replace(b"long" * 600, b"")  # its length does not fit then, which is damage as well
        for cut in truncations(data if len(data) < 500 else short):
            with pytest.raises(ProtocolError):
                whole(cut)


def test_damaged_messages_are_read_or_refused() -> None:
    """By a decoder and by what makes records of it: nothing else is raised than the protocol's own error."""
    messages = [data for data in recorded() if len(data) < 500]
    refused = taken = 0
    for seed in range(150):
        player = Player()
        for number, data in enumerate(messages):
            damaged = data if number % 7 else next(mutations(data, seed=seed * 1000 + number, rounds=1))
            try:
                player.execute(damaged.hex())
                taken += 1
            except (ProtocolError, SchemaChanged):
                refused += 1
    assert refused > 100
    assert taken > 100


def test_a_status_says_what_was_flushed_and_asks_when_told_to() -> None:
    data = status_update(written=3, flushed=2, now_us=946_684_800_000_001, wants_reply=True)
    assert data.hex() == "72" + "0000000000000003" + "0000000000000002" * 2 + "0000000000000001" + "01"


def test_positions_of_the_wal_are_read_and_written_as_postgresql_does() -> None:
    assert lsn_text(lsn_of("16/B374D848")) == "16/B374D848"
    assert lsn_of("1/0") == 1 << 32
    for wrong in ("", "1", "1/", "x/1", "1/y"):
        with pytest.raises(ProtocolError, match="is no position in the WAL"):
            lsn_of(wrong)


def test_rows_of_copy_are_read_with_their_escapes() -> None:
    line = rb"1" + b"\t" + rb"a\tb\nc\\d\b\f\r\v\\N" + b"\t" + rb"\N" + b"\t\n"
    assert copied_row(line, 4) == ["1", "a\tb\nc\\d\b\f\r\v\\N", None, ""]
    assert copied_row(b"\n", 1) == [""]
    with pytest.raises(ProtocolError, match="has 4 columns, and 3 were asked for"):
        copied_row(line, 3)
    with pytest.raises(ProtocolError, match="not UTF-8"):
        copied_row(b"\xff\n", 1)


def test_an_unchanged_value_is_named_unless_the_old_row_has_it() -> None:
    path = next(one for one in transcripts("pgoutput") if one.stem == "changes")
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if " | " in line]
    by_key = [line for line in lines if "shop.public.people" in line and '"op":"u"' in line]
    assert [line.rsplit(" | ", 1)[1] for line in by_key] == ['["note"]']
    whole = [line for line in lines if "shop.public.whole" in line and '"op":"u"' in line]
    assert [line.count("long...") for line in whole] == [2]
    assert whole[0].endswith(r" | \N")
