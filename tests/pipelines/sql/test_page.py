"""The page about SQL: its scripts, one after the other, answer what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from ottla.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[3] / "docs" / "pipelines" / "sql.md"
BLOCK = re.compile(r"^```(sql|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(600)  # Spark on a busy machine
def test_the_scripts_of_the_page_have_the_answers_of_the_page(spark: SparkSession, tmp_path: Path) -> None:
    blocks = [(found[1], found[2]) for found in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
    assert [kind for kind, _ in blocks] == ["sql", "text"] * 3, "each script has its answers behind it"
    texts = [text for _, text in blocks]
    # Of its own, where the topics have the names of the page, and their records, of 1970, stay.
    with Cluster(processes=True, settings={"log.retention.ms": "-1"}) as node:
        for number, (script, answers) in enumerate(zip(texts[::2], texts[1::2], strict=True)):
            file = tmp_path / f"{number}.sql"
            file.write_text(script)
            words = ["--bootstrap-server", node.bootstrap_servers, "--catalog", str(tmp_path / "home")]
            done = CliRunner().invoke(main, ["sql", *words, "--once", "-f", str(file)], catch_exceptions=False)
            assert (done.exit_code, done.stdout) == (0, answers), done.output
