"""The cause in one line: `failures/` has what Spark 4.3 really said, with the plans and the longer stacks cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipelines.connect.reasons import LENGTH_MAX, reason

FAILURES = Path(__file__).with_name("failures")
CAUSES = {
    "analysis": "[UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE] The CSV datasource doesn't support the column `x` of the type "
    '"MAP<BIGINT, STRING>".',
    "broker-refuses": "KafkaTimeout: The topics were not had within 60000 ms: no connection to 127.0.0.1:1 "
    "(id: -1 rack: null): [Errno 111] Connect call failed ('127.0.0.1', 1)",
    "cannot-write": "IOException: mkdir of file:/proc/x/_spark_metadata failed",
    "database-refuses-a-row": "JdbcSQLIntegrityConstraintViolationException: Check constraint violation: "
    '"CONSTRAINT_4F: "; SQL statement: INSERT INTO o ("ID", "NAME") SELECT "id", "name" FROM o_ottla [23513-232]',
    "function-of-a-dataframe": "ValueError: no such country: x (/home/ann/etl/orders.py:32)",
    "reader-of-a-topic": "There is no topic nosuch",
    "rows-read-one-by-one": "[USER_RAISED_EXCEPTION] Deserialization failed: topic sql.w.session, partition 0, offset "
    "2: the value cannot be deserialised",
    "sql-error": "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL "
    'instead. If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error.',
    "staging-table-is-missing": "SQLiteException: [SQLITE_ERROR] SQL error or missing database "
    "(no such table: events_ottla)",
    "worker-died": "a Python worker of Spark died: a function ended or crashed its process, or the machine ran out of "
    "memory",
    "writer-of-a-topic": "1 record(s) for small-0 were refused: MESSAGE_TOO_LARGE: The record batch is larger than the "
    "server accepts.",
}


@pytest.mark.parametrize("name", sorted(path.stem for path in FAILURES.glob("*.txt")))
def test_the_cause_is_found_among_all_that_spark_says(name: str) -> None:
    assert reason((FAILURES / f"{name}.txt").read_text(encoding="utf-8")) == CAUSES[name]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "[STREAM_FAILED] Query x\n  at org.apache\norg.apache.X: BAD_RECORD t-0@7: json: not JSON (DataException).",
            "t-0@7: json: not JSON (DataException).",
        ),
        (
            "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 "
            "in stage 3.0 (TID 7) (10.0.0.5 executor 2): ExecutorLostFailure (executor 2 exited caused by one of the "
            "running tasks) Reason: Command exited with code 137\nDriver stacktrace:",
            "Spark lost executor 2: Command exited with code 137",
        ),
        (
            "[TASK_WRITE_FAILED] Task failed while writing rows to file:/lake. SQLSTATE: 58030\n\tat a.b\nCaused by: "
            "java.io.IOException: No space left on device\n\tat c.d\nCaused by: java.io.EOFException\n\t... 4 more",
            "IOException: No space left on device",
        ),
        (
            'Traceback (most recent call last):\n  File "/tmp/work/app-1/0/./ottla-functions-1d2e.zip/'
            "ottla_pipeline_clean_orders_0123456789ab.py\", line 9, in clean\nKeyError: 'id'",
            "KeyError: 'id' (clean_orders.py:9)",
        ),
        ("[X] first\nsecond", "[X] first"),
        ("", "Spark did not say why"),
    ],
)
def test_bad_records_lost_executors_and_wrapped_causes_are_told(text: str, cause: str) -> None:
    assert reason(text) == cause


def test_a_cause_is_one_line_of_bounded_length() -> None:
    line = reason("java.lang.IllegalStateException: " + "word\n" * 1000)
    assert "\n" not in line
    assert len(line) == LENGTH_MAX
