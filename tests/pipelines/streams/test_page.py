"""The page about streams: every example runs, from top to bottom."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Column

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


def test_the_page_reads_a_field_by_its_name_and_not_as_an_attribute() -> None:
    """`order.name` is a method of Spark's Column: an example that reads a field so works for some names only."""
    nodes = [
        node
        for found in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(found.group(1)))
    ]
    of_plain_values = [
        argument
        for node in nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "python"
        for argument in node.args
    ]
    functions = [node for node in nodes if isinstance(node, ast.Lambda) and node not in of_plain_values]
    read: list[ast.Attribute | ast.Subscript] = [
        node
        for function in functions
        for node in ast.walk(function.body)
        if isinstance(node, ast.Attribute | ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id in {argument.arg for argument in function.args.args}
    ]
    own = dir(Column)
    assert [ast.unparse(one) for one in read if isinstance(one, ast.Attribute) and one.attr not in own] == []
    assert any(isinstance(node, ast.Subscript) for node in read), "there are such examples"
