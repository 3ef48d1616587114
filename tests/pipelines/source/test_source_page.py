"""docs/pipelines/source.md: its examples run, from top to bottom."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[3] / "docs" / "pipelines" / "source.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_page_work_from_top_to_bottom(spark: SparkSession) -> None:
    """In the tests' own session, which `session()` finds."""
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    with Cluster(processes=True) as cluster:
        for found in BLOCK.finditer(text):
            tree = ast.parse(found[1].replace("localhost:9092", cluster.bootstrap_servers))
            ast.increment_lineno(tree, text.count("\n", 0, found.start(1)))
            exec(compile(tree, str(PAGE), "exec"), names)
    assert names["spark"] is spark
