"""What was created outlives the process, and two processes do not lose each other's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipelines.sql.catalog import FILE, Catalog, Column, QueryEntry, Source
from ottla.pipelines.sql.errors import SqlError

ORDERS = Source(
    "STREAM",
    "Orders",
    "orders",
    (Column("id", "BIGINT", True), Column("tags", "ARRAY<STRUCT<`a`: STRING>>")),
    "KAFKA",
    "JSON",
    "CREATE STREAM Orders ...",
    timestamp="id",
)
HOURLY = Source("TABLE", "hourly", "h", (Column("k", "STRING", True),), "JSON", "AVRO", window="TIME", window_size_ms=5)


def test_what_was_written_is_read_by_another(tmp_path: Path) -> None:
    entry = QueryEntry("CTAS_HOURLY_1", "CREATE TABLE ...", "hourly", ("Orders",), "latest", True)
    with Catalog(tmp_path).changing() as contents:
        contents.sources |= {"orders": ORDERS, "hourly": HOURLY}
        assert contents.new_query_id("CTAS", "hourly") == "CTAS_HOURLY_1"
        contents.queries[entry.id] = entry
        known = contents.id
    found = Catalog(tmp_path).read()
    assert found.id == known
    assert found.source("ORDERS") == ORDERS
    assert found.source("hourly") == HOURLY
    assert found.query("ctas_hourly_1") == entry
    assert (found.readers("orders"), found.writers("HOURLY")) == (["CTAS_HOURLY_1"], ["CTAS_HOURLY_1"])
    assert found.new_query_id("CSAS", "a b") == "CSAS_A_B_2", "an id is never used again"


def test_a_change_that_fails_changes_nothing(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    with catalog.changing() as contents:
        contents.sources["orders"] = ORDERS

    def fail() -> None:
        with catalog.changing() as contents:
            contents.sources.clear()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(catalog.read().sources) == ["orders"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == [], "no half file is left"


def test_changes_of_several_processes_are_all_kept(tmp_path: Path) -> None:
    program = (
        "import sys; from dataclasses import replace; from pathlib import Path\n"
        "from ottla.pipelines.sql.catalog import Catalog, Column, Source\n"
        "for n in range(10):\n"
        "    with Catalog(Path(sys.argv[1])).changing() as contents:\n"
        "        name = f'{sys.argv[2]}{n}'\n"
        "        contents.sources[name] = Source('STREAM', name, name, (Column('a', 'INT'),), 'NONE', 'JSON')\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), letter]) for letter in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert sorted(Catalog(tmp_path).read().sources) == sorted(f"{a}{n}" for a in "abc" for n in range(10))


def test_queries_are_run_by_one_process_at_a_time(tmp_path: Path) -> None:
    first, second = Catalog(tmp_path), Catalog(tmp_path)
    assert [one.is_run_elsewhere for one in (first, second)] == [False, False]
    first.begin_running()
    first.begin_running()
    assert [one.is_run_elsewhere for one in (first, second)] == [False, True]
    with pytest.raises(SqlError, match=rf"another process \(pid {os.getpid()}\) runs the queries of .*: end it first"):
        second.begin_running()
    first.end_running()
    second.begin_running()
    second.end_running()


def test_a_catalog_that_cannot_be_read_is_told_with_its_file(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    for text in ("{", "[]", '{"version": 1}', json.dumps({"version": 99})):
        (tmp_path / FILE).write_text(text)
        with pytest.raises(SqlError, match=r"catalog\.json is damaged: .*Restore it, or use another --catalog"):
            catalog.read()
    with pytest.raises(SqlError, match="is no directory: --catalog names one"):
        Catalog(tmp_path / FILE).read()


def test_a_name_that_is_not_there_is_told_with_the_nearest(tmp_path: Path) -> None:
    with Catalog(tmp_path).changing() as contents:
        contents.sources["orders"] = ORDERS
    with pytest.raises(SqlError, match=r"there is no stream or table ordres: is Orders meant\?"):
        contents.source("ordres")
    with pytest.raises(SqlError, match="SHOW QUERIES lists what there is"):
        contents.query("x")
