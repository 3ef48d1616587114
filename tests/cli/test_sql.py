"""`ottla sql` without Spark: mistakes, what there is, records, and the prompt on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.main import main
from ottla.client import Producer
from ottla.testing import Cluster
from tests.cli.test_first_answers import answer

HEAVY = {"pyspark", "pyarrow", "pandas", "numpy", "ottla.client", "asyncio"}
TIMEOUT_S = 30


def sql(cluster: Cluster, home: Path, *arguments: str, stdin: str | None = None) -> Result:
    words = ["sql", "--bootstrap-server", cluster.bootstrap_servers, "--catalog", str(home), *arguments]
    return CliRunner().invoke(main, words, input=stdin, catch_exceptions=False)


def test_help_mistakes_and_what_the_catalog_knows_load_nothing_heavy(tmp_path: Path) -> None:
    home = str(tmp_path)
    code, out, _, loaded = answer("sql", "--help")
    assert (code, loaded & HEAVY) == (0, set())
    assert "--catalog DIRECTORY" in out
    code, out, complaints, loaded = answer("sql", "--catalog", home, "-e", "SHOW STREEMS")
    assert (code, out, loaded & HEAVY) == (1, "", set())
    assert complaints.strip() == (
        "--execute: line 1, column 6: STREAMS or TABLES or TOPICS or QUERIES or PROPERTIES belongs behind SHOW, not "
        "STREEMS"
    )
    code, out, complaints, loaded = answer("sql", "--catalog", home, "-e", "SHOW QUERIES", "--output", "json")
    assert (code, out, complaints, loaded & HEAVY) == (0, "", "", set())


def test_a_script_that_cannot_be_read_runs_nothing_and_one_that_fails_ends_there(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "script.sql"
    create = "CREATE STREAM s (a INT) WITH (KAFKA_TOPIC = 'sql.none', VALUE_FORMAT = 'JSON')"
    file.write_text(f"{create};\nSHOW ME;\n")
    done = sql(cluster, tmp_path / "home", "-f", str(file))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{file}: line 2, column 6: STREAMS or")
    file.write_text(f"SHOW STREAMS;\n\n{create};\nSHOW TABLES;")
    done = sql(cluster, tmp_path / "home", "-f", str(file))
    assert done.exit_code == 1
    assert done.stderr == f"{file}: line 3: there is no topic sql.none: with PARTITIONS = 1 it is made\n"
    assert done.stdout.splitlines()[-1] == "0 rows", "what comes first is done"
    done = sql(cluster, tmp_path / "home", "-f", str(tmp_path / "none.sql"))
    assert (done.exit_code, "none.sql cannot be read" in done.stderr) == (1, True)
    done = sql(cluster, tmp_path / "home", stdin=f"RUN SCRIPT '{file}';")
    assert done.stderr.startswith(f"standard input: line 1: {file}: line 3: there is no topic sql.none")


def test_streams_and_tables_outlive_the_process(cluster: Cluster, tmp_path: Path) -> None:
    created = sql(
        cluster,
        tmp_path,
        "-e",
        "CREATE STREAM Clicks (id BIGINT KEY, page STRUCT<path VARCHAR, tags ARRAY<INT>>)"
        " WITH (KAFKA_TOPIC = 'sql.clicks', VALUE_FORMAT = 'json', PARTITIONS = 2)",
        "-e",
        "CREATE TABLE users (name VARCHAR PRIMARY KEY, age INTEGER) WITH (TOPIC = 'sql.users', FORMAT = 'KAFKA',"
        " PARTITIONS = 1)",
    )
    assert created.stdout.splitlines() == [
        "Stream Clicks was created, with its topic sql.clicks.",
        "Table users was created, with its topic sql.users.",
    ], created.output
    told = sql(cluster, tmp_path, "-e", "SHOW STREAMS; SHOW TABLES; DESCRIBE clicks", "--output", "json")
    assert [json.loads(line) for line in told.stdout.splitlines()] == [
        {"stream": "Clicks", "topic": "sql.clicks", "key format": "KAFKA", "value format": "JSON"},
        {"table": "users", "topic": "sql.users", "key format": "KAFKA", "value format": "KAFKA", "windowed": False},
        {"column": "id", "type": "BIGINT", "is": "key"},
        {"column": "page", "type": "STRUCT<`path`: STRING, `tags`: ARRAY<INT>>", "is": ""},
    ]
    explained = sql(cluster, tmp_path, "-e", "EXPLAIN SELECT id, page.path AS p FROM clicks WHERE id > 5 EMIT CHANGES")
    assert "filter    key > 5" in explained.stdout
    assert "Source: source (topics: [sql.clicks])" in explained.stdout
    again = sql(cluster, tmp_path, "-e", "CREATE STREAM clicks (a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON')")
    assert "there is a stream Clicks already: DROP it first" in again.stderr
    dropped = sql(
        cluster, tmp_path, "-e", "DROP STREAM clicks DELETE TOPIC; SHOW STREAMS; SHOW TOPICS", "--output=json"
    )
    lines = [json.loads(line) for line in dropped.stdout.splitlines()]
    assert lines[0] == {"message": "Stream Clicks was dropped, with its topic."}
    assert "sql.users" in [line["topic"] for line in lines[1:]]
    assert "sql.clicks" not in [line["topic"] for line in lines[1:]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPC = 't')", "WITH has no property KAFKA_TOPC: is KAFKA_TOPIC meant?"),
        ("CREATE STREAM s (a INT) WITH (VALUE_FORMAT = 'JSON')", "needs WITH (KAFKA_TOPIC = '...')"),
        ("CREATE STREAM s (a INT) WITH (TOPIC = 't')", "VALUE_FORMAT is missing: one of JSON, KAFKA"),
        ("CREATE STREAM s (a INT) WITH (TOPIC = 't', VALUE_FORMAT = 'XML')", "VALUE_FORMAT is one of JSON"),
        ("CREATE STREAM s (a INT, b INT) WITH (TOPIC='t', VALUE_FORMAT='KAFKA')", "the format KAFKA has one"),
        ("CREATE STREAM s (a DATE KEY, b INT) WITH (TOPIC='t', VALUE_FORMAT='JSON')", "no serializer for a DATE"),
        ("CREATE STREAM s (a INT KEY, b INT KEY, c INT) WITH (TOPIC='t', VALUE_FORMAT='JSON')", "KEY_FORMAT = 'JSON'"),
        ("CREATE STREAM s (a ARRAY<INT>) WITH (TOPIC='t', VALUE_FORMAT='DELIMITED')", "DELIMITED has no form for a"),
        ("CREATE STREAM s (a INT) WITH (TOPIC='t', VALUE_FORMAT='AVRO')", "AVRO needs a schema registry: --schema"),
        ("CREATE STREAM s (rowtime INT) WITH (TOPIC='t', VALUE_FORMAT='JSON')", "rowtime is what every row has"),
        ("CREATE STREAM s (a STRING) WITH (TOPIC='t', VALUE_FORMAT='JSON', TIMESTAMP='a')", "TIMESTAMP_FORMAT says"),
        ("CREATE STREAM s (a STRING) WITH (TOPIC='t', VALUE_FORMAT='JSON', PARTITIONS='x')", "PARTITIONS is a whole"),
        ("SET 'auto.ofset.reset' = 'latest'", "there is no property auto.ofset.reset: is auto.offset.reset meant?"),
        ("SET 'auto.offset.reset' = 'none'", "auto.offset.reset is earliest or latest, not none"),
        ("DROP TABLE t", "there is no stream or table t: SHOW STREAMS and SHOW TABLES list what there is"),
        ("TERMINATE q", "there is no query q: SHOW QUERIES lists what there is"),
        ("PRINT 'sql.nothing'", "there is no topic sql.nothing: SHOW TOPICS lists what there is"),
        ("INSERT INTO s VALUES (1)", "there is no stream or table s"),
        ("SELECT a FROM s EMIT CHANGES", "line 1, column 15: there is no stream or table s"),
        ("EXPLAIN SHOW_1", "there is no query SHOW_1"),
    ],
)
def test_what_is_wrong_is_one_line(cluster: Cluster, tmp_path: Path, text: str, said: str) -> None:
    done = sql(cluster, tmp_path, "-e", text)
    assert done.exit_code == 1, done.output
    (line,) = done.stderr.splitlines()
    assert said in line


def test_records_are_printed_as_text_or_in_hexadecimal(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("sql.printed", 1)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("sql.printed", b"one", key=b"k", timestamp_ms=5)
        producer.send("sql.printed", b"\x00\xff", timestamp_ms=6)
        producer.send("sql.printed", None, key=b"k", timestamp_ms=7)
    done = sql(cluster, tmp_path, "--once", "--output", "json", "-e", "PRINT 'sql.printed' FROM BEGINNING")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["ROWTIME"], row["key"], row["value"], row["offset"]) for row in rows] == [
        (5, "k", "one", 0),
        (6, None, "0x00ff", 1),
        (7, "k", None, 2),
    ]
    done = sql(cluster, tmp_path, "-e", "PRINT 'sql.printed' FROM BEGINNING LIMIT 1")
    assert done.stdout.splitlines()[-1] == "1 row"


def test_a_catalog_is_of_one_cluster(cluster: Cluster, tmp_path: Path) -> None:
    create = "CREATE STREAM {} (a INT) WITH (TOPIC = 'sql.one', VALUE_FORMAT = 'JSON', PARTITIONS = 1)"
    assert sql(cluster, tmp_path, "-e", create.format("one")).exit_code == 0
    with Cluster() as other:
        done = sql(other, tmp_path, "-e", create.format("two"))
    assert done.exit_code == 1
    assert re.search(r"is of the cluster \S+, and \S+ is \S+: use another --catalog", done.stderr)


class Terminal:
    """`ottla sql` as somebody at a terminal has it."""

    def __init__(self, cluster: Cluster, home: Path, timeout_s: int = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._own, other = pty.openpty()
        words = [sys.executable, "-m", "ottla.cli.main", "sql", "--bootstrap-server", cluster.bootstrap_servers]
        self.process = subprocess.Popen(
            [*words, "--catalog", str(home)], stdin=other, stdout=other, stderr=other, start_new_session=True,
            env={**os.environ, "TERM": "dumb"},
        )  # fmt: skip
        os.close(other)
        self.seen = ""

    def wait_for(self, text: str) -> str:
        """What came up to and with a text."""
        deadline = time.monotonic() + self._timeout_s
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} did not come: {self.seen!r}"
            if select.select([self._own], [], [], 0.1)[0]:
                self.seen += os.read(self._own, 65536).decode().replace("\r\n", "\n")
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def wait_for_silence(self, seconds: float) -> None:
        """Until nothing has come for so long."""
        while select.select([self._own], [], [], seconds)[0]:
            self.seen += os.read(self._own, 65536).decode().replace("\r\n", "\n")

    def type(self, text: str) -> None:
        os.write(self._own, text.encode())

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._own)


@pytest.fixture
def terminal(cluster: Cluster, tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(cluster, tmp_path)
    yield made
    made.close()


def test_the_prompt_takes_lines_until_a_semicolon_and_survives_mistakes_and_ctrl_c(
    cluster: Cluster, terminal: Terminal, tmp_path: Path
) -> None:
    cluster.create_topic("sql.typed", 1)
    terminal.wait_for("ottla> ")
    terminal.type("SHOW\n")
    terminal.wait_for("   ... ")
    terminal.type("STREAMS;\n")
    assert "0 rows" in terminal.wait_for("ottla> ")
    terminal.type("SHOW STREEMS;\n")
    assert "line 1, column 6: STREAMS or TABLES" in terminal.wait_for("ottla> ")
    terminal.type("PRINT 'sql.typed' FROM BEGINNING;\n")
    terminal.wait_for("offset")
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("sql.typed", b"it is shown as it comes").result()
    terminal.wait_for("it is shown as it comes")
    terminal.interrupt()
    assert "ended" in terminal.wait_for("ottla> "), "the statement ends, and not the prompt"
    terminal.type("half a statement\n")
    terminal.wait_for("   ... ")
    terminal.interrupt()
    terminal.wait_for("ottla> ")
    terminal.type("help\n")
    assert "CREATE STREAM orders" in terminal.wait_for("ottla> ")
    terminal.type("exit\n")
    assert terminal.process.wait(TIMEOUT_S) == 0
    assert "PRINT 'sql.typed' FROM BEGINNING;" in (tmp_path / "history").read_text()
