"""A pipeline that fails, by the command: the last line is the cause, and the rest is in a file that it names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FILE = """\
name: failing
source: {type: csv, path: PATH/in, schema: "id BIGINT, country STRING"}
transforms:
  - dataframe: {function: "looking.py:look_up"}
sink: {type: json, path: PATH/out}
"""
FUNCTION = """\
from pyspark.sql import functions as F


def look_up(df):
    @F.udf("string")
    def name_of(country):
        return {"cz": "Czechia"}[country]

    return df.withColumn("name", name_of("country"))
"""


def test_the_last_line_of_a_failed_run_is_the_cause(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,country\n1,cz\n2,de\n")
    (tmp_path / "looking.py").write_text(FUNCTION)
    (tmp_path / "failing.yaml").write_text(FILE.replace("PATH", str(tmp_path)))
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli.main", "pipeline", "run", "--once", "--master", "local[1]",
         str(tmp_path / "failing.yaml")],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    *_, above, last = done.stderr.splitlines()
    assert last == f"KeyError: 'de' ({tmp_path}/looking.py:7)"
    failure = tmp_path / "data" / "ottla" / "pipelines" / "failing" / "failure.log"
    assert above == f"All that was said of this failure is in {failure}"
    assert "=== Streaming Query ===" in failure.read_text()
    assert "FutureWarning" not in done.stderr, "Spark knows the pandas that the extra brings"
