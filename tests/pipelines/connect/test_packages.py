"""Which package of Delta and Iceberg goes with which Spark."""

from __future__ import annotations

import pytest

from ottla.pipelines.connect.packages import PACKAGES


@pytest.mark.parametrize(
    ("name", "spark", "wanted"),
    [
        ("delta", "4.2.0", "io.delta:delta-spark_4.2_2.13:4.4.0"),
        ("delta", "4.3.0", "io.delta:delta-spark_4.3_2.13, of a release after 4.4.0, which ends at Spark 4.2"),
        (
            "iceberg",
            "4.10.1",
            "org.apache.iceberg:iceberg-spark-runtime-4.10_2.13, of a release after 1.12.0, which ends at Spark 4.1",
        ),
    ],
)
def test_the_package_to_get_is_named_with_its_version_where_there_is_one(name: str, spark: str, wanted: str) -> None:
    assert PACKAGES[name].wanted(spark) == wanted


@pytest.mark.parametrize(
    ("name", "jar", "spark"),
    [
        ("delta", "delta-spark_4.2_2.13-4.4.0.jar", "4.2"),
        ("delta", "io.delta_delta-spark_4.10_2.13-5.0.0.jar", "4.10"),
        ("delta", "delta-spark_2.13-4.4.0.jar", None),
        ("iceberg", "org.apache.iceberg_iceberg-spark-runtime-4.1_2.13-1.12.0.jar", "4.1"),
        ("iceberg", "my-lake.jar", None),
    ],
)
def test_a_jar_says_by_its_name_which_spark_it_is_for(name: str, jar: str, spark: str | None) -> None:
    assert PACKAGES[name].made_for(jar) == spark
