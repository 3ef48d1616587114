"""The settings of exception handlers, and failures in one line."""

from __future__ import annotations

import pytest

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.handlers import ErrorHandling, RecordError, Response, told

SHORT = "LogAndContinueExceptionHandler"


def test_records_that_cannot_be_read_or_written_fail_the_query_by_default() -> None:
    assert ErrorHandling.of(None) == ErrorHandling(Response.FAIL, Response.FAIL, None)


@pytest.mark.parametrize("name", [SHORT, f"org.apache.kafka.streams.errors.{SHORT}"])
def test_handlers_have_kafka_streams_names_with_and_without_their_package(name: str) -> None:
    config = {"deserialization.exception.handler": name, "errors.dead.letter.queue.topic.name": "dead"}
    handling = ErrorHandling.of(config)
    assert handling == ErrorHandling(Response.CONTINUE, Response.FAIL, "dead")
    assert handling.writes_dead_letters()
    assert not ErrorHandling(dead_letter_topic="dead").writes_dead_letters(), "a failed batch writes nothing"


def test_a_setting_or_handler_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(PipelineError, match=r"no setting deserialisation\.handler: it takes deserialization"):
        ErrorHandling.of({"deserialisation.handler": SHORT})
    with pytest.raises(
        PipelineError, match="one of LogAndFailExceptionHandler, LogAndContinueExceptionHandler, not 'x'"
    ):
        ErrorHandling.of({"deserialization.exception.handler": "x"})
    with pytest.raises(PipelineError, match="catches it itself"):
        ErrorHandling.of({"processing.exception.handler": "LogAndContinueProcessingExceptionHandler"})


def test_a_query_that_failed_by_a_record_says_so_in_one_line() -> None:
    line = "Deserialization failed: topic t, partition 0, offset 5: the value is no JSON"
    spark = Exception(f"[STREAM_FAILED] Job aborted\nLost task: [USER_RAISED_EXCEPTION] {line} SQLSTATE: P0001\n\tat x")
    error = told(spark)
    assert isinstance(error, RecordError)
    assert (str(error), error.__cause__) == (line, spark)
    other = Exception("[USER_RAISED_EXCEPTION] of the user's own raise_error SQLSTATE: P0001")
    assert told(other) is other
