"""Records what a real PostgreSQL sends, as the transcript that `test_pgoutput` plays.

`python -m tests.unit.pipelines.postgresql.record` starts a server, runs the statements below and prints the
transcript's commands; `pytest --rewrite` then puts in what they come to.
"""

from __future__ import annotations

import re

from ottla.pipelines.postgresql import pgoutput
from ottla.pipelines.postgresql.connection import Address, Connection
from ottla.pipelines.postgresql.pgoutput import Keepalive, lsn_of
from tests.support import postgresql

SETTINGS = {"wal_level": "logical"}
TABLES = (
    "CREATE TABLE people (id int PRIMARY KEY, name text, price numeric(9,2), note text, tags text[])",
    "ALTER TABLE people ALTER note SET STORAGE EXTERNAL",
    'CREATE TABLE whole ("a b" int, note text)',
    "ALTER TABLE whole ALTER note SET STORAGE EXTERNAL",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
    "CREATE TABLE keyless (v int)",
    "CREATE TABLE by_index (a int NOT NULL, b int NOT NULL, v text, UNIQUE (b, a))",
    "ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_b_a_key",
)
CHANGES = (
    "INSERT INTO people VALUES (1, E'tab\\tand \"quotes\" é', 1.50, repeat('long', 600), '{a,\"b,c\",NULL}')",
    "UPDATE people SET name = NULL WHERE id = 1",
    "UPDATE people SET id = 2 WHERE id = 1",
    "BEGIN; INSERT INTO people (id) VALUES (3); DELETE FROM people WHERE id = 3; COMMIT",
    "DELETE FROM people WHERE id = 2",
    "INSERT INTO whole VALUES (1, repeat('long', 600))",
    'UPDATE whole SET "a b" = 2',
    "DELETE FROM whole",
    "INSERT INTO keyless VALUES (1)",
    "INSERT INTO by_index VALUES (1, 2, 'x')",
    "UPDATE by_index SET v = 'y'",
    "UPDATE by_index SET b = 3",
    "DELETE FROM by_index",
    "ALTER TABLE people ADD COLUMN born date",
    "INSERT INTO people (id, born) VALUES (4, '2000-02-29')",
    "TRUNCATE people, whole",
)


def main() -> None:
    with postgresql.running(SETTINGS) as url:
        found = re.fullmatch(r"jdbc:postgresql://([^:]+):(\d+)/(\w+)", url)
        assert found is not None, url
        address = Address(found[1], int(found[2]), found[3], postgresql.USER)
        with Connection(address) as sql, Connection(address, replication=True) as stream:
            for statement in (*TABLES, "CREATE PUBLICATION everything FOR ALL TABLES"):
                sql.rows(statement)
            made = stream.rows("CREATE_REPLICATION_SLOT recorder TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT")
            told = {"proto_version": "1", "publication_names": "everything"}
            stream.start_replication("recorder", made[0][1] or "", told)
            for statement in CHANGES:
                sql.rows(statement)
                end = lsn_of(sql.rows("SELECT pg_current_wal_flush_lsn()")[0][0] or "")
                print(f"\n# {statement}")
                reached = 0
                while reached < end:
                    stream.send_status(pgoutput.status_update(written=0, flushed=0, now_us=0, wants_reply=True))
                    for data in stream.received(1.0):
                        message = pgoutput.replication_message(data)
                        if isinstance(message, Keepalive):
                            reached = max(reached, message.wal_end)
                        else:
                            print(f"> {data.hex()}")


if __name__ == "__main__":
    main()
