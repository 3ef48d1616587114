"""Offsets of many partitions: their JSON form, how much of them one micro-batch takes, and what was lost.

The JSON form is that of Spark's own connector, `{"topic": {"0": 23}}`, in options and in checkpoints alike. In a
checkpoint the ids of the topics stand beside the offsets, `{"topic": {"0": 23}, "topic@7uWkmZ3fQ9y1sN0pXoTbGA": {}}`.
Spark's connector reads that as a topic without partitions, and so as nothing: either continues what the other wrote.
Pure: knows neither Spark nor a broker. Called by the options, the planner and the readers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ottla.pipelines.errors import PipelineError
from ottla.types import TopicPartition, Uuid

LATEST = -1
EARLIEST = -2
BATCH_OFFSETS = 2_000_000
BATCH_OFFSETS_OF_A_PARTITION = 500_000
"""How much a micro-batch takes where a query of Ottla's own (a topology, a pipeline in a file) is given no limit: the
first, or, where it is more, the second for each partition. So a first start on a long topic goes in steps, each of them
committed, and each long against what Spark spends on a micro-batch, a few tenths of a second."""
NO_LIMIT = "none"
"""What an option says for which there would be a limit otherwise."""
INT64_MAX = 2**63 - 1
ID_MARK = "@"
"""Between the name of a topic and its id. No topic's name has it, so that no entry with it is a topic's offsets."""

Offsets: TypeAlias = dict[TopicPartition, int]
TopicIds: TypeAlias = dict[str, Uuid]
Json: TypeAlias = dict[str, dict[str, int]]


class DataLoss(PipelineError):
    """Records that were still to be read are gone; with `failOnDataLoss` false the query goes on with what is there."""


WAY_OUT = (
    "Set the option failOnDataLoss to false to go on with what is there, or start with a new checkpoint and the "
    "startingOffsets of your choice"
)


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """Where a query stands. Spark keeps it in the checkpoint, and compares the texts of two of them."""

    offsets: Offsets
    topic_ids: TopicIds = field(default_factory=dict)
    """The ids of the topics that the offsets belong to. A topic is missing here while no broker has told its id, and
    after Spark's connector, or an older Ottla, wrote the checkpoint."""

    @classmethod
    def from_json(cls, value: object) -> SourceOffset:
        """What `to_json` or Spark's connector wrote; `ValueError` for anything else."""
        offsets = from_json(value)
        assert isinstance(value, dict), "it has offsets"
        marked = (name.split(ID_MARK, 1) for name in value if ID_MARK in name)
        return cls(offsets, {topic: Uuid.parse(text) for topic, text in marked})

    def to_json(self) -> Json:
        """The form that goes into the checkpoint, sorted, so that the same offsets are the same text."""
        ids: Json = {f"{topic}{ID_MARK}{self.topic_ids[topic]}": {} for topic in sorted(self.topic_ids)}
        return to_json(self.offsets) | ids

    def recreated(self, now: Mapping[str, Uuid]) -> set[str]:
        """The topics that `now` have another id: they were deleted, and others were created under their names."""
        return {topic for topic, known in self.topic_ids.items() if now.get(topic, known) != known}

    def without(self, topics: Iterable[str]) -> Offsets:
        """The offsets of all other topics."""
        left_out = set(topics)
        return {one: offset for one, offset in self.offsets.items() if one.topic not in left_out}


def from_json(value: object) -> Offsets:
    """The offsets (or timestamps) of a JSON object of objects; `ValueError` for anything else."""
    if not isinstance(value, dict):
        raise ValueError("it is no object of topics")
    found: Offsets = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"the partitions of {topic} are no object")
        for partition, number in partitions.items():
            if not isinstance(number, int) or isinstance(number, bool) or abs(number) > INT64_MAX:
                raise ValueError(f"{number!r} of {topic}-{partition} is no whole number of 64 bits")
            if not partition.isascii() or not partition.isdigit():
                raise ValueError(f"{partition!r} of {topic} is no partition")
            found[TopicPartition(topic, int(partition))] = number
    return found


def parse(text: str) -> Offsets:
    """The offsets of a JSON text; `ValueError` when it is none."""
    return from_json(json.loads(text))


def to_json(offsets: Mapping[TopicPartition, int]) -> Json:
    """The offsets as Spark's connector writes them, sorted."""
    found: Json = {}
    for one in sorted(offsets):
        found.setdefault(one.topic, {})[str(one.partition)] = offsets[one]
    return found


def names(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for a message, as Kafka writes them."""
    return ", ".join(str(one) for one in sorted(partitions))


def limited(limit: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Offsets:
    """As much of [start, end) as `limit` allows, each partition in proportion to what it has.

    As Spark's connector counts: rounded down, but a partition with something to read is never starved, so that a little
    more than `limit` may come of many small ones. A partition without a start is left at its end.
    """
    sizes = {one: until - start[one] for one, until in end.items() if one in start and until > start[one]}
    total = float(sum(sizes.values()))
    if total < 1:
        return dict(end)
    chosen: Offsets = {}
    for one, until in end.items():
        size = sizes.get(one)
        if size is None:
            chosen[one] = until
            continue
        share = limit * (size / total)
        chosen[one] = min(until, start[one] + (math.ceil(share) if share < 1 else math.floor(share)))
    return chosen


def batch_limit(partitions: int) -> int:
    """How many offsets a micro-batch of so many partitions takes where nobody has said how many."""
    return max(BATCH_OFFSETS, partitions * BATCH_OFFSETS_OF_A_PARTITION)


def count(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    """How many offsets lie between, where an unknown start is 0."""
    return sum(until - start.get(one, 0) for one, until in end.items())
