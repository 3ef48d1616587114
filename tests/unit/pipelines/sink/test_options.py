"""What a writer was told, and what it says when it cannot do it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.sink.options import Delivery, SinkOptions, read_options

BROKER = {"kafka.bootstrap.servers": "localhost:9092"}


def read(*, is_streaming: bool = True, **options: str) -> SinkOptions:
    return read_options(BROKER | options, is_streaming=is_streaming)


def test_streams_are_exactly_once_and_batch_jobs_at_least_once_unless_told() -> None:
    assert read(transactionalId="a").delivery is Delivery.EXACTLY_ONCE
    assert read(is_streaming=False).delivery is Delivery.AT_LEAST_ONCE
    assert read(delivery="at-least-once").delivery is Delivery.AT_LEAST_ONCE
    assert read(is_streaming=False, delivery="Exactly-Once").delivery is Delivery.EXACTLY_ONCE


def test_names_are_taken_in_any_case_and_others_are_passed_over() -> None:
    options = {"KAFKA.Bootstrap.Servers": "b:1", "TOPIC": "t", "TransactionalID": "x", "path": "/p", "subscribe": "s"}
    got = read_options(options, is_streaming=True)
    assert (got.topic, got.transactional_id, got.kafka) == ("t", "x", {"bootstrap.servers": "b:1"})


def test_times_are_those_of_writing_unless_told() -> None:
    assert not read(transactionalId="a").includes_timestamp
    assert read(transactionalId="a", includeTimestamp="True").includes_timestamp


def test_a_query_has_the_name_of_its_checkpoint_wherever_that_lies(tmp_path: Path) -> None:
    """The id in the checkpoint, so that a checkpoint may be moved."""
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "metadata").write_text('{"id":"4f1c"}')
    assert read(checkpointLocation=str(tmp_path / "here")).transactional_id == "ottla-4f1c"
    assert read(checkpointLocation=f"file://{tmp_path}/there").transactional_id == "ottla-4f1c"


def test_a_checkpoint_elsewhere_stands_for_itself_by_its_address() -> None:
    first = read(checkpointLocation="s3a://bucket/one")
    assert first.transactional_id is not None
    assert first.transactional_id == read(checkpointLocation="s3a://bucket/one/").transactional_id
    assert first.transactional_id != read(checkpointLocation="s3a://bucket/two").transactional_id


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"delivery": "twice", "transactionalId": "a"}, r"exactly-once or at-least-once, and not 'twice'"),
        ({}, "set the option checkpointLocation on the writer, or transactionalId"),
        ({"transactionalId": "a", "kafka.acks": "1"}, "kafka.acks is 1, and delivery is exactly-once, which needs all"),
        ({"transactionalId": "a", "kafka.transactional.id": "b"}, "it is the option transactionalId"),
        ({"transactionalId": "a", "kafka.key.serializer": "x"}, "keys are written as they are"),
        ({"transactionalId": "a", "transactionTimeoutMs": "soon"}, "a number of milliseconds above 0, and not 'soon'"),
        ({"transactionalId": "a", "includeTimestamp": "yes"}, "includeTimestamp is true or false, and not 'yes'"),
        ({"transactionalId": "a", "forgottenBatch": "keep"}, "forgottenBatch is fail or write or skip, and not 'keep'"),
        ({"transactionalId": "a", "kafka.linger.mss": "1"}, "did you mean linger.ms"),
        ({"transactionalId": "a", "kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_in_one_line(options: dict[str, str], says: str) -> None:
    with pytest.raises(PipelineError, match=says) as refused:
        read_options(BROKER | options, is_streaming=True)
    assert "\n" not in str(refused.value)


def test_at_least_once_takes_any_acks() -> None:
    options = BROKER | {"delivery": "at-least-once", "kafka.acks": "1"}
    assert read_options(options, is_streaming=True).config().acks == "1"
