"""Directories of file sinks that are named after a time, on a disk and in an S3."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

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


def lake(path: str, **by_time: Any) -> Pipeline:
    return Pipeline(
        "lake",
        source={"type": "json", "path": f"{path}/in", "schema": "id BIGINT, at STRING, ms BIGINT"},
        sink={"type": "json", "path": f"{path}/out", "partition-by-time": {"pattern": PATTERN, **by_time}},
        errors="skip",
    )


@pytest.mark.parametrize("session_zone", ["UTC", "Europe/Prague"])
def test_a_directory_is_the_zones_time_whatever_the_sessions_zone_is(
    spark: SparkSession, tmp_path: Path, session_zone: str
) -> None:
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", session_zone)
    rows = [(number, at.isoformat(), int(at.timestamp() * 1000)) for number, at in enumerate(INSTANTS)]
    rows += [(98, "yesterday", None), (99, None, None)]  # type: ignore[list-item]
    try:
        df = spark.createDataFrame(rows, "id BIGINT, at STRING, ms BIGINT").withColumn(record.META, record.meta())
        for zone in ("UTC", "Europe/Prague", "America/Los_Angeles"):
            for field in ("at", "ms"):
                made, names = partitions.by_time(df, lake(str(tmp_path), field=field, timezone=zone))
                assert names == ["year", "dt", "time", "day"]
                found = made.select("id", *(f"`{name}`" for name in names), f"{record.META}.error.message").collect()
                good = {row[0]: "/".join(f"{name}={row[name]}" for name in names) for row in found if row[5] is None}
                assert good == {number: directory(at, zone) for number, at in enumerate(INSTANTS)}
                assert {row[0]: row[5] for row in found if row[5]} == dict.fromkeys((98, 99), f"{field} is no time")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_records_of_a_topic_go_by_their_own_time_and_durations_round_it_down(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """And a record whose field is no time is a dead letter."""
    servers = cluster.bootstrap_servers
    topic, dead = cluster.create_topic(new_topic("timed")), cluster.create_topic(new_topic("untimed"))
    sent(servers, topic, [b'{"id": 1, "at": "2026-05-01T10:44:59Z"}', b'{"id": 2, "at": "2026-05-01"}', b'{"id": 3}'])

    def pipeline(name: str, **by_time: Any) -> Pipeline:
        return Pipeline(
            name,
            source={"type": "topic", "topic": topic, "bootstrap.servers": servers, "schema": "id BIGINT, at STRING"},
            sink={"type": "parquet", "path": str(tmp_path / name), "partition-by-time": by_time},
            errors="dead-letter",
            dead_letter={"topic": dead, "bootstrap.servers": servers},
        )

    by_field = pipeline("field", field="at", pattern="'dt'=yyyyMMdd/'time'=HHmm", duration="15 minutes")
    assert once(by_field, spark, tmp_path / "home").bad == 1
    places = {str(path.parent.relative_to(tmp_path / "field")) for path in (tmp_path / "field").glob("**/*.parquet")}
    assert places == {"dt=20260501/time=1030", "dt=20260501/time=0000"}
    (letter,) = received(servers, dead, 1)
    assert letter.value == b'{"id": 3}'
    assert tuple(dict(letter.headers)[f"__connect.errors.exception.{name}"] for name in ("class.name", "message")) == (
        b"PartitionException",
        b"at is no time",
    )

    once(pipeline("own", pattern="'dt'=yyyy-MM-dd"), spark, tmp_path / "home")
    places = {path.parent.name for path in (tmp_path / "own").glob("**/*.parquet")}
    times = {datetime.fromtimestamp(one.timestamp / 1000, UTC) for one in received(servers, topic, 3)}
    assert places == {f"dt={time:%Y-%m-%d}" for time in times}
    with pytest.raises(SpecError, match=r"sink.partition-by-time.pattern: there is a field at already"):
        once(pipeline("wrong", pattern="'at'=yyyy"), spark, tmp_path / "home")
    with pytest.raises(SpecError, match=r"sink.partition-by-time.field: there is no field att: did you mean at"):
        once(pipeline("wrong", pattern="'dt'=yyyy", field="att"), spark, tmp_path / "home")


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
    import json

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
