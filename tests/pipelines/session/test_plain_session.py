"""A session that `ottla.pipelines` has no part in, started by a user in a shell with nothing set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipelines.java import find_java
from tests.support.spark import QUICK_DRIVER

PROGRAM = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
options = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", "columns": "value,offset"}
print("columns:", *spark.read.format("ottla").options(**options).load().columns)
"""
TIMEOUT_S = 240


def start(**environment: str) -> subprocess.Popen[str]:
    told = {"HOME": os.environ["HOME"], "JAVA_HOME": str(find_java(None).home), "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**told, **QUICK_DRIVER, **environment},
        cwd="/",
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.timeout(TIMEOUT_S + 60)
def test_a_plain_session_finds_the_format_where_the_path_or_a_setting_names_this_python(tmp_path: Path) -> None:
    """And says what the page says where neither does: the Python of its workers is one without Ottla."""
    (tmp_path / "python3").symlink_to(Path(sys.base_prefix, "bin", "python3"))
    usual = "/usr/bin:/bin"
    running = {
        "activated": start(PATH=f"{Path(sys.executable).parent}:{usual}"),
        "set": start(PATH=f"{tmp_path}:{usual}", PYSPARK_PYTHON=sys.executable),
        "neither": start(PATH=f"{tmp_path}:{usual}"),
    }
    try:
        found = {name: one.communicate(timeout=TIMEOUT_S) for name, one in running.items()}
    finally:
        for one in running.values():
            one.kill()
    for name in ("activated", "set"):
        assert "columns: value offset" in found[name][0], found[name][1]
    told = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: ottla"
    assert told in found["neither"][1]
    page = Path("docs/pipelines/source.md").read_text(encoding="utf-8")
    (passage,) = (one for one in page.split("\n\n") if told in one)
    assert "`PYSPARK_PYTHON`" in passage, "and the way out"
