"""How much a micro-batch of a topology takes: a first start on a long topic goes in steps, unless told otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.pipelines.source import offsets
from ottla.pipelines.streams import StreamsBuilder
from ottla.testing import Cluster
from tests.pipelines.source.support import numbered, produce, read_batch
from tests.support.clients import new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 60
"""In each of two partitions."""


@pytest.mark.parametrize(
    ("source", "steps"),
    [
        ({}, [40, 40, 40]),
        ({"maxoffsetspertrigger": "none"}, [120]),
        ({"maxOffsetsPerTrigger": "80"}, [80, 40]),
        ({"minOffsetsPerTrigger": "1"}, [120]),
    ],
    ids=["by default", "none", "told", "another limit"],
)
def test_a_first_start_goes_in_steps_of_the_limit_and_reads_everything(
    spark: SparkSession,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: dict[str, str],
    steps: list[int],
) -> None:
    """With limits of test size: the second is for each of the two partitions."""
    monkeypatch.setattr(offsets, "BATCH_OFFSETS", 30)
    monkeypatch.setattr(offsets, "BATCH_OFFSETS_OF_A_PARTITION", 20)
    lines, copied = (cluster.create_topic(new_topic(name), partitions=2) for name in ("lines", "copied"))
    for partition in range(2):
        produce(cluster, lines, numbered(RECORDS), partition=partition)
    builder = StreamsBuilder()
    builder.stream(lines).to(copied)
    topology = builder.build(new_topic("limited"))
    running = topology.start(
        spark, cluster.bootstrap_servers, checkpoint=str(tmp_path), available_now=True, source=source
    )
    (query,) = running.queries.values()
    assert [one.numInputRows for one in query.recentProgress if one.numInputRows] == steps
    options = {"kafka.isolation.level": "read_committed", "subscribe": copied}
    assert read_batch(cluster, **options).num_rows == 2 * RECORDS


def test_the_limit_grows_with_the_partitions() -> None:
    assert [offsets.batch_limit(partitions) for partitions in (1, 4, 5, 100)] == [
        2_000_000,
        2_000_000,
        2_500_000,
        50_000_000,
    ]
