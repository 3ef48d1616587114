"""How far queries are behind: the figures by Spark's progress, and the page for Prometheus."""

from __future__ import annotations

import json
import uuid
from typing import Any

from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent, StreamingQueryProgress

from ottla.pipelines import LagListener, offsets_behind_latest

RATES = {"numInputRows": 1, "inputRowsPerSecond": 1.0, "processedRowsPerSecond": 1.0}
TOPIC_ID = "t@7uWkmZ3fQ9y1sN0pXoTbGA"


def progress(*sources: tuple[Any, Any], name: str | None = "q", run: str | None = None) -> StreamingQueryProgress:
    """What Spark tells a listener; `sources` have ends and latest offsets."""
    return StreamingQueryProgress.fromJson(
        {
            "id": str(uuid.uuid4()), "runId": run or str(uuid.uuid4()), "name": name, "batchId": 3, "batchDuration": 5,
            "timestamp": "2026-01-01T00:00:00.000Z", "durationMs": {}, "eventTime": {}, "stateOperators": [],
            "observedMetrics": {}, "sink": {"description": "s", "numOutputRows": 0, "metrics": {}}, **RATES,
            "sources": [
                {"description": "d", "startOffset": None, "endOffset": end, "latestOffset": latest, **RATES}
                for end, latest in sources
            ],
        }
    )  # fmt: skip


def test_the_figures_are_over_partitions_and_one_that_was_never_read_begins_at_0() -> None:
    end = {"t": {"0": 10, "1": 5}, TOPIC_ID: {}}
    latest = {"t": {"0": 10, "1": 9, "2": 8}}
    expected = [{"minOffsetsBehindLatest": 0, "maxOffsetsBehindLatest": 8, "avgOffsetsBehindLatest": 4.0}]
    assert offsets_behind_latest(progress((end, latest))) == expected
    assert offsets_behind_latest(json.loads(progress((end, latest)).json)) == expected


def test_what_reads_no_topics_or_knows_no_end_has_no_figures() -> None:
    """Spark's rate source counts seconds, a source of files has a log; before the first look there is no latest."""
    found = progress((5, 9), ({"logOffset": 3}, None), ({"t": {"0": 1}}, None), ("0-5", "0-7"), ({"a": {"b": 1}}, {}))
    assert offsets_behind_latest(found) == [{}, {}, {}, {}, {}]


def test_the_page_has_every_running_query_and_forgets_those_that_ended() -> None:
    lag = LagListener()
    assert (lag.figures(), lag.prometheus()) == ({}, "")
    run = str(uuid.uuid4())
    for latest in (40, 30):
        told = progress(({"t": {"0": 10}}, {"t": {"0": latest}}), (1, 2), name='a "b"\\', run=run)
        lag.onQueryProgress(QueryProgressEvent(told))
    nameless = progress(({"t": {"0": 1}}, {"t": {"0": 1}}), name=None)
    lag.onQueryProgress(QueryProgressEvent(nameless))
    assert lag.figures()['a "b"\\'] == [
        {"minOffsetsBehindLatest": 20, "maxOffsetsBehindLatest": 20, "avgOffsetsBehindLatest": 20.0},
        {},
    ]
    page = lag.prometheus().splitlines()
    assert page[1] == "# TYPE ottla_source_min_offsets_behind_latest gauge"
    assert 'ottla_source_max_offsets_behind_latest{query="a \\"b\\"\\\\",source="0"} 20' in page
    assert f'ottla_source_avg_offsets_behind_latest{{query="{nameless.id}",source="0"}} 0.0' in page
    lag.onQueryTerminated(QueryTerminatedEvent(nameless.id, uuid.UUID(run), None, None))
    assert list(lag.figures()) == [str(nameless.id)]
