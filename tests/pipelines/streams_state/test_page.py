"""docs/pipelines/state.md: its examples run from top to bottom."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[3] / "docs" / "pipelines" / "state.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(600)  # Spark on a busy machine
def test_the_examples_of_the_page_work_from_top_to_bottom(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    # As in a program: what a main module defines travels to Spark's workers by value.
    names: dict[str, object] = {"__name__": "__main__", "spark": spark}
    for found in BLOCK.finditer(text):
        code = found.group(1).replace("localhost:9092", cluster.bootstrap_servers).replace("/tmp/", f"{tmp_path}/")
        tree = ast.parse(code)
        ast.increment_lineno(tree, text.count("\n", 0, found.start(1)))
        exec(compile(tree, str(PAGE), "exec"), names)
    assert {"store", "taken", "query"} <= names.keys()
