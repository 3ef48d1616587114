"""The names of the options of `format("ottla")`: what is misspelt is refused, with the name that was likely meant.

Spark passes on whatever it is given, in any case. An option of the other direction, as in a job that has one set of
options for reading and writing, is known and has no effect, which is told once. All options of Spark's own connector
are among the names. Pure but for the log. Called by the options of the source and of the sink.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from difflib import get_close_matches

from ottla.pipelines.errors import PipelineError

log = logging.getLogger(__name__)

SOURCE = (
    "assign",
    "columns",
    "commitGroup",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxBytesPerTrigger",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "pushDownPredicate",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
)
SINK = ("delivery", "forgottenBatch", "includeTimestamp", "topic", "transactionalId", "transactionTimeoutMs")
SPARKS = (
    "asyncProgressTrackingCheckpointIntervalMs",
    "asyncProgressTrackingEnabled",
    "checkpointLocation",
    "outputMode",
    "path",
    "provider",
    "queryName",
    "serialization.format",
    "table",
)
"""Options of Spark's own, which it uses or makes and passes on: of readers, writers, queries and tables."""
KAFKA = "kafka."
SPARK_PREFIXES = ("spark.", "_")
CLOSE = 0.75
"""How much of a name has to be right for another to be meant (`difflib`)."""

_told: set[tuple[str, str]] = set()
"""What was told already: Spark makes a reader or a writer many times. At most as many as there are names."""


class UnknownOption(PipelineError, ValueError):
    """An option that neither the source nor the sink nor Spark has."""


def check_source(names: Iterable[str]) -> None:
    """Raises `UnknownOption` for the first name that no reader is given."""
    _check(names, SOURCE, SINK, "a reader")


def check_sink(names: Iterable[str]) -> None:
    """Raises `UnknownOption` for the first name that no writer is given."""
    _check(names, SINK, SOURCE, "a writer")


def _check(names: Iterable[str], own: Iterable[str], others: Iterable[str], who: str) -> None:
    taken = {name.lower(): name for name in (*own, *SPARKS)}
    idle = {name.lower(): name for name in others}
    for name in names:
        lower = name.lower()
        if lower in taken or lower.startswith((KAFKA, *SPARK_PREFIXES)):
            continue
        if lower not in idle:
            near = get_close_matches(lower, taken, n=1, cutoff=CLOSE)
            what_to_do = f"is {taken[near[0]]} meant?" if near else f"a setting of Kafka's client is kafka.{name}"
            raise UnknownOption(f"There is no option {name} of {who}: {what_to_do}")
        if (who, lower) not in _told:
            _told.add((who, lower))
            log.warning("The option %s has no effect on %s", idle[lower], who)
