"""Where Spark is not installed: the plain parts work, and the rest says in one line what to install."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
for name in ("pyspark", "pyarrow", "pandas"):
    sys.modules[name] = None

import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("pyspark", "pyarrow", "pandas") else found(name, *rest)

import ottla.pipelines
from ottla.pipelines.source import options, offsets, planning, cluster, range_reader

try:
    ottla.pipelines.OttlaDataSource
except ottla.pipelines.MissingDependency as missing:
    print(missing)
"""


def test_without_spark_the_data_source_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "pipelines need pyspark and pyarrow and pandas: pip install 'ottla[spark]'\n", done.stderr
