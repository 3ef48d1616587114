"""Offsets of many partitions: their JSON form, how much of them one micro-batch takes, and what was lost.

The JSON form is that of Spark's own connector, `{"topic": {"0": 23}}`, in options and in checkpoints alike. Pure: knows
neither Spark nor a broker. Called by the options, the planner and the readers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from ottla.pipelines.errors import PipelineError
from ottla.types import TopicPartition

LATEST = -1
EARLIEST = -2
INT64_MAX = 2**63 - 1

Offsets: TypeAlias = dict[TopicPartition, int]
Json: TypeAlias = dict[str, dict[str, int]]


class DataLoss(PipelineError):
    """Records that were still to be read are gone; with `failOnDataLoss` false the query goes on with what is there."""


WAY_OUT = (
    "Set the option failOnDataLoss to false to go on with what is there, or start with a new checkpoint and the "
    "startingOffsets of your choice"
)


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
    """The form that goes into Spark's checkpoint, sorted, so that the same offsets are the same text."""
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


def count(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    """How many offsets lie between, where an unknown start is 0."""
    return sum(until - start.get(one, 0) for one, until in end.items())
