"""Directories of file sinks that are named after a time, on a disk and in an S3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import functions as F

from ottla.pipelines.connect import Pipeline, SpecError, partitions, record
from ottla.pipelines.connect.state import Home
from ottla.testing import Cluster
from tests.pipelines.connect.test_pipelines import once, received, sent
from tests.support.clients import new_topic
from tests.support.s3 import SETTINGS, make_bucket, s3, s3a_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ON = os.environ.get("OTTLA_SOAK") == "1"
PATTERN = "'year'=YYYY/'dt'=yyyy-MM-dd/'time'=HH_mm_ss/'day'=D"
INSTANTS = [
    datetime(2026, 3, 29, 0, 59, 59, tzinfo=UTC), datetime(2026, 3, 29, 1, 0, tzinfo=UTC),  # Prague skips an hour
    datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC),  # and has one twice
    datetime(2026, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), datetime(1969, 7, 20, 20, 17, 40, tzinfo=UTC),
    datetime(2024, 2, 29, 12, 0, tzinfo=UTC),
]  # fmt: skip


def directory(instant: datetime, zone: str) -> str:
    """What Joda-Time, and so Confluent's partitioner, makes of an instant."""
    return instant.astimezone(ZoneInfo(zone)).strftime("year=%Y/dt=%Y-%m-%d/time=%H_%M_%S/day=") + str(
        int(instant.astimezone(ZoneInfo(zone)).strftime("%j"))
    )


def lake(path: str, field: str | None, zone: str) -> Pipeline:
    by_time = {"pattern": PATTERN, "timezone": zone} | ({"field": field} if field else {})
    return Pipeline(
        "lake",
        source={"type": "topic", "topic": "t", "bootstrap.servers": "localhost:1", "schema": "id BIGINT"},
        sink={"type": "json", "path": path, "partition-by-time": by_time},
    )


def test_a_directory_is_the_zones_time_whatever_the_sessions_zone_is(spark: SparkSession, tmp_path: Path) -> None:
    """By a text, by milliseconds, and by the record's own time."""
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", "Europe/Prague")
    rows: list[tuple[int, str | None, int | None]] = [
        (number, at.isoformat(), int(at.timestamp() * 1000)) for number, at in enumerate(INSTANTS)
    ]
    rows += [(98, "yesterday", None), (99, None, None)]
    cases = [("at", "UTC"), ("ms", "Europe/Prague"), (None, "America/Los_Angeles")]
    try:
        df = spark.createDataFrame(rows, "id BIGINT, at STRING, ms BIGINT").coalesce(1)
        df = df.withColumn(record.META, record.meta(timestamp=F.timestamp_millis("ms")))
        for field, zone in cases:
            made, names = partitions.by_time(df, lake(str(tmp_path), field, zone))
            assert names == ["year", "dt", "time", "day"]
            found = made.select("id", *names, f"{record.META}.error.message").collect()
            good = {row[0]: "/".join(f"{name}={row[name]}" for name in names) for row in found if row[5] is None}
            assert good == {number: directory(at, zone) for number, at in enumerate(INSTANTS)}
            said = f"{field} is no time" if field else "the record has no timestamp"
            assert {row[0]: row[5] for row in found if row[5]} == dict.fromkeys((98, 99), said)
        with pytest.raises(SpecError, match=r"sink.partition-by-time.field: there is no field att: did you mean at"):
            partitions.by_time(df, lake(str(tmp_path), "att", "UTC"))
        with pytest.raises(SpecError, match=r"sink.partition-by-time.pattern: there is a field day already"):
            partitions.by_time(df.withColumn("day", F.lit(1)), lake(str(tmp_path), "at", "UTC"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_files_are_below_their_times_and_a_record_without_one_is_a_dead_letter(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    servers = cluster.bootstrap_servers
    topic, dead = cluster.create_topic(new_topic("timed")), cluster.create_topic(new_topic("untimed"))
    sent(servers, topic, [b'{"id": 1, "at": "2026-05-01T10:44:59Z"}', b'{"id": 2, "at": "2026-05-01"}', b'{"id": 3}'])
    by_time = {"field": "at", "pattern": "'dt'=yyyyMMdd/'time'=HHmm", "duration": "15 minutes"}
    pipeline = Pipeline(
        "timed",
        source={"type": "topic", "topic": topic, "bootstrap.servers": servers, "schema": "id BIGINT, at STRING"},
        sink={"type": "parquet", "path": str(tmp_path / "out"), "partition-by-time": by_time},
        errors="dead-letter",
        dead_letter={"topic": dead, "bootstrap.servers": servers},
    )
    assert once(pipeline, spark, tmp_path / "home").bad == 1
    places = {str(path.parent.relative_to(tmp_path / "out")) for path in (tmp_path / "out").glob("**/*.parquet")}
    assert places == {"dt=20260501/time=1030", "dt=20260501/time=0000"}
    (letter,) = received(servers, dead, 1)
    assert letter.value == b'{"id": 3}'
    told = dict(letter.headers)
    assert [told[f"__connect.errors.exception.{name}"] for name in ("class.name", "message")] == [
        b"PartitionException", b"at is no time",
    ]  # fmt: skip


FILE = """\
name: lake
source: {{type: json, path: {base}/in, schema: "id BIGINT, at STRING"}}
sink:
  type: parquet
  path: s3a://lake/orders
  partition-by-time: {{field: at, pattern: "'dt'=yyyy-MM-dd/'hour'=HH", timezone: Europe/Prague}}
checkpoint: s3a://lake/checkpoint
spark: {spark}
"""


@pytest.mark.skipif(not ON, reason="OTTLA_SOAK=1 writes to an S3 that moto serves, and fetches 700 MB once")
@pytest.mark.java
@pytest.mark.timeout(900)
def test_a_bucket_of_s3_has_each_record_once_below_its_hour(tmp_path: Path) -> None:
    """With the checkpoint in the bucket too, through the command, in two runs."""
    import pyspark

    hadoop = next((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")).stem.rpartition("-")[2]
    (tmp_path / "in").mkdir()
    with s3() as address:
        make_bucket(address, "lake")
        settings = {
            **SETTINGS, "spark.hadoop.fs.s3a.endpoint": address, "spark.jars": ",".join(s3a_jars(hadoop)),
        }  # fmt: skip
        file = tmp_path / "lake.yaml"
        file.write_text(FILE.format(base=tmp_path, spark=json.dumps(settings)))
        program = (
            "import sys; from ottla.pipelines.spark import session;"
            "spark = session(master='local[2]', conf=dict(zip(sys.argv[1::2], sys.argv[2::2])));"
            "df = spark.read.parquet('s3a://lake/orders');"
            "print(sorted((r.id, str(r.dt), r.hour) for r in df.collect()))"
        )

        def ran(*command: str) -> str:
            told = subprocess.run(
                [sys.executable, *command], capture_output=True, text=True, timeout=400, check=False,
                env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
            )  # fmt: skip
            assert told.returncode == 0, told.stderr[-3000:]
            return told.stdout

        for number, at in enumerate(("2026-05-01T21:59:59Z", "2026-05-01T22:00:00Z")):
            (tmp_path / "in" / f"{number}.json").write_text(json.dumps({"id": number, "at": at}))
            told = ran("-m", "ottla.cli.main", "pipeline", "run", str(file), "--once", "--master", "local[2]")
            assert told.splitlines()[-1] == "lake: done after 1 records"
        rows = ran("-c", program, *(word for pair in settings.items() for word in pair))
    assert rows.splitlines()[-1] == "[(0, '2026-05-01', 23), (1, '2026-05-02', 0)]"
    assert Home("lake", tmp_path / "ottla" / "pipelines").read() is not None
