"""What a session is made of, without starting one."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

import ottla.pipelines
from ottla.pipelines import MissingDependency, PipelineError, spark
from ottla.pipelines.spark import defaults


def test_importing_pipelines_imports_neither_spark_nor_arrow() -> None:
    program = (
        "import sys, ottla.pipelines.spark, ottla.pipelines.schemas;"
        "print(sorted({'pyspark', 'pyarrow', 'pandas', 'numpy'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_without_spark_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "find_spec", lambda name: None if name in ("pyspark", "pandas") else object())
    with pytest.raises(MissingDependency, match=r"^pipelines need pyspark and pandas: pip install 'ottla\[spark\]'$"):
        ottla.pipelines.session()


def test_a_session_has_a_master_or_a_remote() -> None:
    with pytest.raises(PipelineError, match="a master or a remote, and was given both"):
        ottla.pipelines.session(master="local[2]", remote="sc://localhost")


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[4,2]", 4), ("local[0]", 1)])
def test_a_machine_shuffles_into_as_many_partitions_as_it_has_cores(master: str, cores: int) -> None:
    assert defaults(master)["spark.sql.shuffle.partitions"] == cores


def test_a_cluster_keeps_its_own_addresses_logs_and_sizes() -> None:
    for master in ("spark://host:7077", "yarn", "k8s://https://host", "local-cluster[2,1,1024]"):
        assert {name for name in defaults(master) if not name.startswith("spark.sql.")} == set()
        assert "spark.sql.shuffle.partitions" not in defaults(master)


def test_pages_are_served_only_where_they_are_asked_for() -> None:
    assert defaults("local[*]")["spark.ui.enabled"] is False
    assert defaults("local[*]", ui=True)["spark.ui.enabled"] is True


def test_an_operators_own_logging_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert "log4j2.properties" in str(defaults("local[*]")["spark.driver.extraJavaOptions"])
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert "spark.driver.extraJavaOptions" not in defaults("local[*]")


def test_spark_takes_the_pandas_of_the_extra_without_a_warning() -> None:
    from pyspark.sql.pandas.utils import require_minimum_pandas_version

    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "pandas>=2.2,<3" in project["optional-dependencies"]["spark"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_minimum_pandas_version()
