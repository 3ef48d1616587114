"""The pages about the session and about schemas: every example runs, from top to bottom."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.schema_registry import fake_registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.testing import Cluster

DOCS = Path(__file__).parents[3] / "docs" / "pipelines"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SET = "spark.sql.shuffle.partitions"


@pytest.mark.parametrize("page", ["README.md", "schemas.md"])
def test_the_examples_of_a_page_work_from_top_to_bottom(
    page: str, spark: SparkSession, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = cluster.create_topic(f"pages.{page}")
    before = spark.conf.get(SET) or "2"
    text = (DOCS / page).read_text(encoding="utf-8")
    names: dict[str, object] = {}
    try:
        with fake_registry() as registry:
            for found in BLOCK.finditer(text):
                code = found.group(1).replace("localhost:9092", cluster.bootstrap_servers)
                code = code.replace("http://localhost:8081", registry.url).replace('"orders"', repr(topic))
                tree = ast.parse(code)
                ast.increment_lineno(tree, text.count("\n", 0, found.start(1)))
                exec(compile(tree, str(DOCS / page), "exec"), names)
    finally:
        spark.conf.set(SET, before)
    shown = capsys.readouterr().out
    assert names["spark"] is spark
    assert (spark.version in shown) if page == "README.md" else ("apples" in shown and "1700000000" in shown)
