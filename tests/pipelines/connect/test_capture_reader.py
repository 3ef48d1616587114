"""The reading side of change data capture against a real PostgreSQL, without Spark: what it makes of a slot, of a
connection that breaks, of tables that change, and what it tells the server."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.pipelines.connect import Pipeline, capture, change_spool
from ottla.pipelines.connect.capture import Capture, drop
from ottla.pipelines.connect.change_spool import ChangeSpool, files, read_position, read_slot
from ottla.pipelines.connect.changes import SchemaChanged
from ottla.pipelines.durable import sync
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.postgresql.connection import Address, Connection, PostgresqlError, Unavailable
from ottla.pipelines.postgresql.scram import AuthenticationError
from tests.support import postgresql
from tests.support.clients import eventually

LOGICAL = {
    "wal_level": "logical", "wal_sender_timeout": "1s", "ssl": "on", "ssl_cert_file": "server.crt",
    "ssl_key_file": "server.key",
}  # fmt: skip
ACCESS = (
    "local all all trust", "host all by_scram all scram-sha-256", "host all by_md5 all md5",
    "host all by_password all password", "hostssl all by_tls all trust", "host all by_tls all reject",
    "hostnossl all without_tls all trust", "host all without_tls all reject", "host all nobody all gss",
)  # fmt: skip


def address_of(url: str) -> Address:
    found = re.fullmatch(r"jdbc:postgresql://([^:]+):(\d+)/(\w+)", url)
    assert found is not None, url
    return Address(found[1], int(found[2]), found[3], postgresql.USER)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a key, and a certificate for `localhost` that it has signed itself."""
    made = tmp_path_factory.mktemp("certificate")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost -keyout server.key -out server.crt"
    )
    subprocess.run(command.split(), cwd=made, check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def server(certificate: Path) -> Iterator[Address]:
    files = {name: (certificate / name).read_bytes() for name in ("server.crt", "server.key")}
    with postgresql.running(LOGICAL, access=ACCESS, files=files) as url:
        yield address_of(url)


@pytest.fixture
def sql(server: Address) -> Iterator[Connection]:
    """A connection to a database without tables, slots and publications."""
    with Connection(server) as connection:
        eventually(
            lambda: not connection.rows("SELECT 1 FROM pg_replication_slots WHERE active"), "no slot is read", 20
        )
        connection.rows("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        connection.rows(
            "DROP SCHEMA public CASCADE; CREATE SCHEMA public; DROP PUBLICATION IF EXISTS ottla_people, other, inserts"
        )
        connection.rows("CREATE TABLE people (id int PRIMARY KEY, name text)")
        yield connection


def people(address: Address, **options: Any) -> Pipeline:
    source = {
        "type": "postgresql-cdc", "database-hostname": address.host, "database-port": address.port,
        "database-dbname": address.database, "database-user": address.user, "table-include-list": "public.people",
    }  # fmt: skip
    return Pipeline("people", source=source | options, sink={"type": "json", "path": "/nowhere"})


def reader(server: Address, spool: Path, **options: Any) -> Capture:
    return Capture(people(server, **options), spool, lambda: False)


def caught_up(server: Address, spool: Path, **options: Any) -> Capture:
    found = reader(server, spool, **options)
    found.open()
    found.catch_up()
    return found


@contextmanager
def started(server: Address, spool: Path, **options: Any) -> Iterator[Capture]:
    found = reader(server, spool, **options)
    found.open()
    found.start()
    try:
        yield found
    finally:
        found.close()


def lines(spool: Path) -> list[list[str]]:
    return [line.split("\t") for one in files(spool) for line in one.path.read_text().splitlines()]


def operations(spool: Path) -> list[str]:
    """`c1`: an insertion of the key 1; `-1` is a tombstone."""
    return [
        ("-" if value == r"\N" else json.loads(value)["op"]) + str(json.loads(key)["id"])
        for _, _, _, key, value, _ in lines(spool)
    ]


def slot_lsn(sql: Connection) -> str | None:
    return sql.rows("SELECT confirmed_flush_lsn FROM pg_replication_slots")[0][0]


def test_the_server_is_told_only_what_the_checkpoint_has(server: Address, sql: Connection, tmp_path: Path) -> None:
    sql.rows("INSERT INTO people VALUES (1, 'a')")
    with started(server, tmp_path) as found:
        eventually(lambda: operations(tmp_path) == ["r1"], "the snapshot is there", 20)
        begin = slot_lsn(sql)
        sql.rows("INSERT INTO people VALUES (2, 'b')")
        eventually(lambda: operations(tmp_path) == ["r1", "c2"], "the change is there", 20)
        time.sleep(1.0)  # three statuses
        assert slot_lsn(sql) == begin
        assert found.slot_lag_bytes
        found.confirm(1)
        eventually(lambda: operations(tmp_path) == ["c2"], "what is confirmed goes", 20)
        assert slot_lsn(sql) == begin, "the snapshot's position, which the slot began with"
        found.confirm(2)
        eventually(lambda: slot_lsn(sql) == sql.rows("SELECT pg_current_wal_flush_lsn()")[0][0], "all is confirmed", 20)
        # What other tables write does not keep the slot back either.
        sql.rows("CREATE TABLE others AS SELECT generate_series(1, 10000)")
        eventually(lambda: slot_lsn(sql) == sql.rows("SELECT pg_current_wal_flush_lsn()")[0][0], "the WAL goes", 20)
        assert found.failure is None
    position = read_position(tmp_path)
    assert position is not None
    assert position.offset == 2


def test_a_server_that_is_waited_for_hears_of_us_also_while_the_spool_is_full(
    server: Address, sql: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a `wal_sender_timeout` of a second, after which the server would end the connection."""
    monkeypatch.setattr(capture, "SPOOL_BYTES_MAX", 1000)
    with started(server, tmp_path) as found:
        eventually(lambda: bool(sql.rows("SELECT 1 FROM pg_replication_slots WHERE active")), "the slot is read", 20)
        pid = sql.rows("SELECT active_pid FROM pg_replication_slots")
        for number in range(1, 6):
            sql.rows(f"INSERT INTO people SELECT x, repeat('x', 5000) FROM generate_series({number}00, {number}99) x")
            eventually(lambda: found._spool.pending_bytes > 1000, "the spool is full", 20)
        time.sleep(2.5)
        assert sql.rows("SELECT active_pid FROM pg_replication_slots") == pid
        assert len(lines(tmp_path)) == 100
        for _ in range(20):
            found.confirm(found._spool.next_offset)
            time.sleep(0.1)
        position = read_position(tmp_path)
        assert position is not None
        assert position.offset == 500
        assert found.failure is None


def test_a_connection_that_breaks_is_made_anew_and_nothing_comes_twice(
    server: Address, sql: Connection, tmp_path: Path
) -> None:
    """In the middle of transactions as well, which are large enough to come in pieces."""
    with started(server, tmp_path) as found:
        for number in range(1, 40):
            sql.rows(f"INSERT INTO people SELECT x, repeat('x', 500) FROM generate_series({number}000, {number}499) x")
            if number % 4 == 0:
                sql.rows("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
        eventually(lambda: len(lines(tmp_path)) >= 39 * 500, "all is there", 60)
        assert found.failure is None
    told = operations(tmp_path)
    assert told == [f"{told[0][0]}{number}{row:03d}" for number in range(1, 40) for row in range(500)] or [
        one[1:] for one in told
    ] == [f"{number}{row:03d}" for number in range(1, 40) for row in range(500)]
    assert [int(offset) for offset, *_ in lines(tmp_path)] == list(range(39 * 500))


def test_a_run_that_is_cut_short_in_its_snapshot_takes_another(
    server: Address, sql: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql.rows("INSERT INTO people VALUES (1, 'a'), (2, 'b')")
    with monkeypatch.context() as cut:

        def killed(self: ChangeSpool, position: change_spool.Position) -> None:
            raise KeyboardInterrupt

        cut.setattr(ChangeSpool, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            caught_up(server, tmp_path)
    assert read_position(tmp_path) is None
    assert sql.rows("SELECT slot_name FROM pg_replication_slots") == [["ottla_people"]]
    sql.rows("DELETE FROM people WHERE id = 1")
    caught_up(server, tmp_path)
    assert operations(tmp_path) == ["r2"]
    sql.rows("INSERT INTO people VALUES (3, 'c')")
    caught_up(server, tmp_path)
    assert operations(tmp_path) == ["r2", "c3"]


@pytest.mark.parametrize("step", range(8))
def test_a_spool_that_is_cut_short_at_any_step_has_each_change_once(
    server: Address, sql: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Every step that changes a file may be the last one of a run."""
    caught_up(server, tmp_path)
    sql.rows("INSERT INTO people VALUES (1, 'a')")
    sql.rows("INSERT INTO people VALUES (2, 'b')")
    left = [step]

    def counted(step_of: Callable[..., Any]) -> Callable[..., Any]:
        def taken(*args: Any, **told: Any) -> Any:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return step_of(*args, **told)

        return taken

    with monkeypatch.context() as cut:
        cut.setattr(Path, "rename", counted(Path.rename))
        cut.setattr(Path, "unlink", counted(Path.unlink))
        cut.setattr(Path, "replace", counted(Path.replace))
        cut.setattr("ottla.pipelines.connect.change_spool.sync", counted(sync))
        try:
            caught_up(server, tmp_path)
        except KeyboardInterrupt:
            was_cut = True
        else:
            was_cut = False
    sql.rows("INSERT INTO people VALUES (3, 'c')")
    caught_up(server, tmp_path)
    assert operations(tmp_path) == ["c1", "c2", "c3"]
    assert [int(offset) for offset, *_ in lines(tmp_path)] == [0, 1, 2]
    assert was_cut or step > 4


def test_an_added_column_goes_on_and_others_end_the_run_in_one_line(
    server: Address, sql: Connection, tmp_path: Path
) -> None:
    with started(server, tmp_path):
        eventually(lambda: read_position(tmp_path) is not None, "the snapshot is there", 20)
        sql.rows("ALTER TABLE people ADD COLUMN born date")
        sql.rows("INSERT INTO people VALUES (1, 'a', '2000-01-01')")
        eventually(lambda: operations(tmp_path) == ["c1"], "the change is there", 20)
        assert json.loads(lines(tmp_path)[0][4])["after"] == {"id": 1, "name": "a", "born": "2000-01-01"}

    def ends(change: str, spool: Path, insert: str) -> str:
        with started(server, spool) as run:
            time.sleep(0.3)
            sql.rows(change)
            sql.rows(insert)
            eventually(lambda: run.failure is not None, "the run ends", 20)
            assert isinstance(run.failure, SchemaChanged)
            return str(run.failure).partition(": start the pipeline again")[0]

    told = ends("ALTER TABLE people ALTER name TYPE int USING id", tmp_path, "INSERT INTO people VALUES (2, 2)")
    assert told == "the column name of public.people was text and is int4"
    caught_up(server, tmp_path)
    assert operations(tmp_path) == ["c1", "c2"]
    told = ends("ALTER TABLE people DROP COLUMN name", tmp_path, "INSERT INTO people VALUES (3)")
    assert told == "the column name of public.people is gone"
    caught_up(server, tmp_path)
    told = ends("ALTER TABLE people RENAME TO persons", tmp_path, "INSERT INTO persons VALUES (4)")
    assert told == "the table public.people is public.persons now"
    assert operations(tmp_path) == ["c1", "c2", "c3"]


def test_values_that_are_not_sent_are_named_or_stood_in_for(
    server: Address, sql: Connection, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sql.rows("ALTER TABLE people ALTER name SET STORAGE EXTERNAL")
    caught_up(server, tmp_path / "a")
    caught_up(server, tmp_path / "b", **{"slot-name": "other", "publication-name": "ottla_people",
                                         "unavailable-value-placeholder": "?"})  # fmt: skip
    sql.rows("INSERT INTO people VALUES (1, repeat('long', 1000))")
    sql.rows("UPDATE people SET id = 2")
    sql.rows("ALTER TABLE people REPLICA IDENTITY FULL")
    sql.rows("UPDATE people SET id = 3")
    caught_up(server, tmp_path / "a")
    caught_up(server, tmp_path / "b", **{"slot-name": "other", "publication-name": "ottla_people",
                                         "unavailable-value-placeholder": "?"})  # fmt: skip
    warned = "PostgreSQL does not send TOASTed values of public.people (name) that an update leaves as they are"
    assert caplog.text.count(warned) == 1, "of the first run alone: later the table has another replica identity"
    assert operations(tmp_path / "a") == ["c1", "d1", "-1", "c2", "d2", "-2", "c3"]
    assert [(line[5], (json.loads(line[4])["after"] or {}).get("name", "")[:4])
            for line in lines(tmp_path / "a") if line[4] != r"\N" and '"op":"c"' in line[4]
            and json.loads(line[4])["after"]["name"] is not None] == [(r"\N", "long"), (r"\N", "long")]  # fmt: skip
    assert lines(tmp_path / "a")[3][5] == '["name"]'
    assert lines(tmp_path / "b")[3][5] == r"\N"
    assert json.loads(lines(tmp_path / "b")[3][4])["after"]["name"] == "?"


def test_truncations_and_other_operations_are_skipped_or_told(
    server: Address, sql: Connection, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    more = {"slot-name": "other", "publication-name": "ottla_people"}
    caught_up(server, tmp_path / "a")
    caught_up(server, tmp_path / "b", **more, **{"skipped-operations": "none", "tombstones-on-delete": False})
    caught_up(server, tmp_path / "c", **{**more, "slot-name": "third", "skipped-operations": "u, d"})
    sql.rows("INSERT INTO people VALUES (1, 'a'), (2, 'b')")
    sql.rows("UPDATE people SET name = 'x' WHERE id = 1")
    sql.rows("DELETE FROM people WHERE id = 1")
    sql.rows("TRUNCATE people")
    caught_up(server, tmp_path / "a")
    assert operations(tmp_path / "a") == ["c1", "c2", "u1", "d1", "-1"]
    assert "public.people was truncated" in caplog.text
    caught_up(server, tmp_path / "b", **more, **{"skipped-operations": "none", "tombstones-on-delete": False})
    ops = [json.loads(line[4])["op"] for line in lines(tmp_path / "b")]
    assert ops == ["c", "c", "u", "d", "t"]
    last = lines(tmp_path / "b")[-1]
    assert (last[3], json.loads(last[4])["before"], json.loads(last[4])["after"]) == (r"\N", None, None)
    caught_up(server, tmp_path / "c", **{**more, "slot-name": "third", "skipped-operations": "u, d"})
    assert [json.loads(line[4])["op"] for line in lines(tmp_path / "c")] == ["c", "c", "t"]


def test_without_a_snapshot_only_changes_come(server: Address, sql: Connection, tmp_path: Path) -> None:
    sql.rows("INSERT INTO people VALUES (1, 'a')")
    caught_up(server, tmp_path, **{"snapshot-mode": "never"})
    sql.rows("INSERT INTO people VALUES (2, 'b')")
    caught_up(server, tmp_path, **{"snapshot-mode": "never"})
    assert operations(tmp_path) == ["c2"]


def test_what_is_wrong_with_a_database_is_one_line(server: Address, sql: Connection, tmp_path: Path) -> None:
    sql.rows(
        'CREATE TABLE places (id int, at point, "A" int, a int); CREATE TABLE keyless (v int);'
        "CREATE PUBLICATION other FOR TABLE keyless;"
        "CREATE PUBLICATION inserts FOR TABLE people WITH (publish = insert)"
    )

    def told(spool: str = "new", /, **options: Any) -> str:
        with pytest.raises(PipelineError) as caught:
            caught_up(server, tmp_path / spool, **options)
        return str(caught.value).removeprefix("pipeline people: source.")

    assert told(**{"table-include-list": "public.peeple"}) == (
        "table-include-list: there is no table public.peeple: did you mean public.people?"
    )
    assert told(**{"table-include-list": r"public\.p.*"}).startswith(
        "table-include-list: public.places.at is point, a type that is not known here: `column-exclude-list` leaves"
    )
    assert told(**{"table-include-list": "public.places", "include-unknown-datatypes": True}).startswith(
        "table-include-list: public.places has several columns 'a' in other cases"
    )
    assert (
        told(**{"column-exclude-list": "public.people.id"})
        == "column-exclude-list: public.people.id is part of the key"
    )
    assert told(**{"column-exclude-list": "people.x"}).startswith("column-exclude-list: there is no column people.x")
    assert told(**{"publication-name": "other"}).startswith(
        'publication-name: the publication other does not have public.people: `ALTER PUBLICATION "other" ADD TABLE'
    )
    assert told(**{"publication-name": "inserts"}).startswith("publication-name: the publication inserts leaves out")
    assert told(**{"publication-autocreate-mode": "disabled"}) == (
        "publication-name: there is no publication ottla_people, and autocreate is disabled"
    )
    sql.rows("SELECT pg_create_logical_replication_slot('foreign', 'pgoutput')")
    where = f"of postgresql://{server.host}:{server.port}/postgres"
    assert told("foreign", **{"slot-name": "foreign"}).startswith(
        f"the replication slot foreign {where} is there already, and this pipeline has not made it"
    )
    caught_up(server, tmp_path / "mine")
    assert told("mine", **{"slot-name": "another"}).startswith(f"the spool {tmp_path / 'mine'} is that of the slot")
    sql.rows("INSERT INTO people VALUES (1, 'a')")
    sql.rows("SELECT pg_replication_slot_advance('ottla_people', pg_current_wal_lsn())")
    assert "by somebody else" in told("mine")
    sql.rows("SELECT pg_drop_replication_slot('ottla_people')")
    assert told("mine").startswith(f"the replication slot ottla_people {where} is gone, and what changed since")
    sql.rows("DROP PUBLICATION ottla_people")
    assert told(**{"database-user": "nobody-else"}).endswith('role "nobody-else" does not exist (SQLSTATE 28000)')
    assert told(**{"database-dbname": "none"}).endswith('database "none" does not exist (SQLSTATE 3D000)')


def test_what_a_pipeline_has_in_the_database_is_dropped(server: Address, sql: Connection, tmp_path: Path) -> None:
    caught_up(server, tmp_path)
    slot = read_slot(tmp_path)
    assert slot is not None
    drop(people(server), slot)
    assert sql.rows("SELECT slot_name FROM pg_replication_slots") == []
    assert sql.rows("SELECT pubname FROM pg_publication") == []
    drop(people(server), slot)  # and when it is gone, that is well

    # A publication that was there stays, and a database without logical WAL is told apart.
    sql.rows("CREATE PUBLICATION ottla_people FOR TABLE people")
    caught_up(server, tmp_path / "theirs")
    slot = read_slot(tmp_path / "theirs")
    assert slot is not None
    drop(people(server), slot)
    assert sql.rows("SELECT pubname FROM pg_publication") == [["ottla_people"]]


def test_a_server_proves_who_it_is_and_asks_who_we_are(server: Address, sql: Connection) -> None:
    sql.rows(
        "SET password_encryption = 'scram-sha-256'; CREATE ROLE by_scram LOGIN PASSWORD 'é sécret';"
        "SET password_encryption = 'md5'; CREATE ROLE by_md5 LOGIN PASSWORD 'secret';"
        "CREATE ROLE by_password LOGIN PASSWORD 'plain'; CREATE ROLE nobody LOGIN"
    )
    try:
        for user, password in (("by_scram", "é sécret"), ("by_md5", "secret"), ("by_password", "plain")):
            with Connection(replace(server, user=user, password=password)) as connection:
                assert connection.rows("SELECT current_user") == [[user]]
            with pytest.raises(PostgresqlError, match=f'password authentication failed for user "{user}"'):
                Connection(replace(server, user=user, password="wrong"))
            with pytest.raises(PostgresqlError, match="wants a password: `database-password` says it"):
                Connection(replace(server, user=user))
        with pytest.raises(PostgresqlError, match="wants authentication of the kind 7; scram-sha-256"):
            Connection(replace(server, user="nobody"))
    finally:
        sql.rows("DROP ROLE by_scram, by_md5, by_password, nobody")


def test_tls_is_used_and_its_certificate_checked_as_far_as_is_said(
    server: Address, sql: Connection, certificate: Path, tmp_path: Path
) -> None:
    """Over TLS the whole of a capture; and every refusal in one line."""
    sql.rows("CREATE ROLE by_tls LOGIN SUPERUSER; CREATE ROLE without_tls LOGIN; INSERT INTO people VALUES (1, 'a')")
    trusted = str(certificate / "server.crt")
    secret = replace(server, host="localhost", user="by_tls", ssl_root_cert=trusted)
    is_on = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    try:
        for mode in ("verify-full", "verify-ca", "require", "prefer"):
            with Connection(replace(secret, ssl_mode=mode)) as connection:
                assert connection.rows(is_on) == [["t"]]
        with Connection(replace(secret, host="127.0.0.1", ssl_mode="verify-ca")) as connection:
            assert connection.rows(is_on) == [["t"]]
        with Connection(replace(secret, user="without_tls", ssl_mode="disable")) as connection:
            assert connection.rows(is_on) == [["f"]]
        with pytest.raises(PostgresqlError, match=r"TLS fails: .*IP address mismatch"):
            Connection(replace(secret, host="127.0.0.1", ssl_mode="verify-full"))
        with pytest.raises(PostgresqlError, match=r"TLS fails: .*self[- ]signed certificate"):
            Connection(replace(secret, ssl_mode="verify-full", ssl_root_cert=None))
        with pytest.raises(PostgresqlError, match=r"pg_hba\.conf rejects connection"):
            Connection(replace(secret, ssl_mode="disable"))
        with pytest.raises(PostgresqlError, match="a file of database-sslrootcert, -sslcert or -sslkey cannot be used"):
            Connection(replace(secret, ssl_root_cert="/not/there"))
        options = {
            "database-hostname": "localhost", "database-user": "by_tls", "database-sslmode": "verify-full",
            "database-sslrootcert": trusted,
        }  # fmt: skip
        caught_up(server, tmp_path, **options)
        sql.rows("INSERT INTO people SELECT x, repeat('x', 1000) FROM generate_series(2, 2000) x")
        caught_up(server, tmp_path, **options)
        assert len(operations(tmp_path)) == 2000
    finally:
        sql.rows("DROP OWNED BY by_tls; DROP ROLE without_tls, by_tls")


def test_nobody_who_answers_otherwise_is_believed() -> None:
    """A server that closes, says nothing that is the protocol, or goes on with SASL that was not begun."""
    for answer, error in (
        (b"", Unavailable), (b"HTTP/1.1 400 Bad Request\r\n\r\n", PipelineError),
        (b"R\0\0\0\x08\0\0\0\x0b", PipelineError), (b"R\0\0\0\x08\0\0\0\x0c", PipelineError),
        (b"R\0\0\0\x12\0\0\0\x0aSCRAM-X\0\0\0", (AuthenticationError, PipelineError)),
    ):  # fmt: skip
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def serve(said: bytes = answer, listener: socket.socket = listener) -> None:
                peer, _ = listener.accept()
                with peer:
                    peer.recv(10_000)
                    peer.sendall(said)
                    peer.shutdown(socket.SHUT_WR)
                    peer.recv(10_000)

            thread = threading.Thread(target=serve)
            thread.start()
            with pytest.raises(error):
                Connection(Address("127.0.0.1", listener.getsockname()[1], "db", "me", ssl_mode="disable"))
            thread.join(10)
    with pytest.raises(Unavailable, match="cannot be reached: Connection refused"):
        Connection(Address("127.0.0.1", 1, "db", "me"))
