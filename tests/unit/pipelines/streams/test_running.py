"""What a topology's start refuses before it asks anybody."""

from __future__ import annotations

from typing import cast

import pytest
from pyspark.sql import SparkSession

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams import StreamsBuilder
from ottla.pipelines.streams.processor import Context, Processor, ProcessorOperator, Record, TimeMode


class Passing(Processor):
    """Sends on what it gets."""

    def process(self, record: Record, context: Context) -> None:
        context.forward(record.key, record.value)


def test_what_goes_by_the_clock_has_no_end_and_says_so() -> None:
    """Spark would run micro-batches without data for ever."""
    builder = StreamsBuilder()
    operator = ProcessorOperator(processor=Passing(), key_type="string", value_type="string", time=TimeMode.PROCESSING)
    builder.stream("in", key="string", value="string").process(operator).to("out")
    topology = builder.build("clocked")
    nobody = cast(SparkSession, None)
    with pytest.raises(PipelineError, match=r"goes by processing time.*start it without available_now"):
        topology.start(nobody, "nowhere:9092", checkpoint="nowhere", available_now=True)
