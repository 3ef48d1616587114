"""A home for Spark that is all links but for the archive of sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipelines.spark_home import light_home


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tmp_path / "pyspark"
    for name in ("bin", "jars", "sbin", "python/lib"):
        (made / name).mkdir(parents=True)
    (made / "bin" / "spark-submit").touch()
    (made / "python" / "lib" / "pyspark.zip").touch()
    return made


def test_it_has_what_starts_spark_and_not_the_archive(package: Path) -> None:
    home = light_home(package)
    assert home is not None
    assert sorted(one.name for one in home.iterdir()) == ["bin", "jars", "sbin"]
    assert (home / "bin" / "spark-submit").is_file()
    assert light_home(package) == home


def test_a_link_that_leads_nowhere_is_made_anew(package: Path) -> None:
    home = light_home(package)
    assert home is not None
    (home / "jars").unlink()
    (home / "jars").symlink_to(package / "gone")
    assert light_home(package) == home
    assert (home / "jars").resolve() == (package / "jars").resolve()


def test_what_is_no_whole_spark_is_left_alone(package: Path) -> None:
    (package / "bin" / "spark-submit").unlink()
    assert light_home(package) is None
