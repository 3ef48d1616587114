"""docs/pipelines/source.md: its examples run, from top to bottom."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.testing import Cluster
from tests.pipelines.source.support import produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[3] / "docs" / "pipelines" / "source.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_page_work_from_top_to_bottom(spark: SparkSession) -> None:
    """In the tests' own session, which `session()` finds."""
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    try:
        with Cluster(processes=True) as cluster:
            for found in BLOCK.finditer(text):
                tree = ast.parse(found[1].replace("localhost:9092", cluster.bootstrap_servers))
                ast.increment_lineno(tree, text.count("\n", 0, found.start(1)))
                exec(compile(tree, str(PAGE), "exec"), names)
            assert names["spark"] is spark
            check_what_the_page_says_of_views(spark, cluster)
    finally:
        spark.catalog.dropTempView("orders_topic")


def check_what_the_page_says_of_views(spark: SparkSession, cluster: Cluster) -> None:
    """A view has the ends of its first query, and a new one those of now."""
    produce(cluster, "orders", [b"one more"])
    assert spark.table("orders_topic").count() == 100
    options = f"OPTIONS (`kafka.bootstrap.servers` '{cluster.bootstrap_servers}', subscribe 'orders')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders_topic USING ottla {options}")
    assert spark.table("orders_topic").count() == 101
