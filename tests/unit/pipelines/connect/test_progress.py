"""The figures of a micro-batch, out of what Spark reports."""

from __future__ import annotations

from ottla.pipelines.connect.progress import Batch, batch_of

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
