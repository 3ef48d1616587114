"""The page about streams: every example runs, from top to bottom."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.testing import Cluster

PAGE = Path(__file__).parents[3] / "docs" / "pipelines" / "streams.md"
BLOCK = re.compile(r"^```python(?: broker)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(600)  # Spark on a busy machine
def test_the_examples_of_the_page_work_from_top_to_bottom(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, counts = cluster.create_topic("page.lines"), cluster.create_topic("page.word-counts")
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, object] = {"spark": spark, "home": str(tmp_path)}
    for found in BLOCK.finditer(text):
        code = found.group(1).replace("localhost:9092", cluster.bootstrap_servers)
        code = code.replace('"lines"', repr(lines)).replace('"word-counts"', repr(counts))
        tree = ast.parse(code)
        ast.increment_lineno(tree, text.count("\n", 0, found.start(1)))
        exec(compile(tree, str(PAGE), "exec"), names)
    shown = capsys.readouterr().out
    assert "Sub-topology: 0" in shown
    assert "flowchart TD" in shown
