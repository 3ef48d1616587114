"""The figures of a micro-batch, out of what Spark reports."""

from __future__ import annotations

from ottla.pipelines.connect.progress import Batch, batch_of
from ottla.pipelines.connect.runner import reason

REPORT = {
    "batchId": 12,
    "numInputRows": 1000,
    "inputRowsPerSecond": 5230.4,
    "processedRowsPerSecond": 6100.0,
    "durationMs": {"triggerExecution": 190},
    "sources": [{"endOffset": '{"t":{"0":50,"1":10}}', "latestOffset": {"t": {"0": 60, "1": 5, "2": 3}}}],
    "observedMetrics": {"records": {"bad": 2}},
}


def test_rates_lag_and_time_are_told_in_a_line() -> None:
    batch = batch_of(REPORT)
    assert batch == Batch(12, 1000, 5230.4, 6100.0, 13, 190, 2)
    assert batch.line == "batch 12 | 1,000 records | 2 bad | in 5,230/s | out 6,100/s | lag 13 | 190 ms"


def test_what_spark_does_not_tell_is_left_out() -> None:
    batch = batch_of({"batchId": 0, "inputRowsPerSecond": "NaN", "sources": [{"endOffset": {"logOffset": 1}}]})
    assert batch == Batch(0, 0, 0.0, 0.0, None, 0, None)
    assert batch.line == "batch 0 | 0 records | in 0/s | out 0/s | 0 ms"


def test_the_reason_is_found_among_all_that_spark_says() -> None:
    text = "[STREAM_FAILED] Query x\n  at org.apache\norg.apache.X: BAD_RECORD t-0@7: json: not JSON (DataException).\n"
    assert reason(text) == "t-0@7: json: not JSON (DataException)."
    assert reason("a\nottla.pipelines.errors.PipelineError: no topic: set one\nb") == "no topic: set one"
    assert reason("[X] first\nsecond") == "[X] first"
    assert reason("") == "Spark did not say why"
