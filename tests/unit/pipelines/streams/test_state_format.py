"""How state lies in a checkpoint, without Spark; `tests/pipelines/streams` asks Spark's own hash."""

from __future__ import annotations

import pytest

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.compiler.state_format import (
    AGGREGATES,
    SPREAD_MAX,
    TASKS,
    StateFormat,
    grouping_value,
)

HASH_OF_ONE = -559580957
"""What `SELECT hash(1)` gives in Spark."""


def test_a_grouping_value_is_the_integer_that_spark_hashes_to_the_tasks_number() -> None:
    assert grouping_value(HASH_OF_ONE) == 1


def test_no_task_has_the_grouping_value_of_another() -> None:
    values = {grouping_value(task) for task in range(SPREAD_MAX)}
    assert len(values) == SPREAD_MAX
    assert not any(0 <= value < 200_000 for value in values), "the tasks behind them are grouped by their number"


def test_a_checkpoint_goes_on_with_the_format_it_was_made_with() -> None:
    new = StateFormat.of_new(6)
    assert (new.version, new.spread) == (TASKS, 6)
    assert StateFormat.of_known({"state": new.facts()}) == new
    assert StateFormat.of_known({"application": "from before"}) == StateFormat(AGGREGATES, 0)
    assert StateFormat.of_new(1_000_000).spread == SPREAD_MAX


def test_a_format_of_a_later_version_is_refused() -> None:
    with pytest.raises(PipelineError, match="version 3, and this Ottla reads up to 2"):
        StateFormat.of_known({"state": {"version": 3, "spread": 1}})
