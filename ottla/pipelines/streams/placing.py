"""Partitions of rows whose topic only the row knows: what a sink with a topic-name extractor writes.

How many partitions such a topic has is asked on the worker, when the first row for it comes. Rows of a partition are
written by one task whatever the answer, so that a topic that grows meanwhile costs no record. Called by `cluster`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.pipelines.streams import handlers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

KNOWN_S = 60.0
KNOWN_MAX = 10_000
"""How long a worker goes by what it was told, and of how many topics."""
TRIES = 4
PAUSE_S = 0.5
"""A topic that was just created may not have reached the broker that is asked."""
NO_PARTITION = -1
_known: dict[str, dict[str, tuple[int, float]]] = {}
"""The partitions of topics and until when that is believed, by the cluster's address."""


def partition_of(topics: Mapping[str, int], settings: Mapping[str, Any]) -> Column:
    """The partition of each row with `topic`, `key` and `value`; of `topics`, whose partitions are known, null.

    `settings` are those of an admin. A topic that does not exist fails the query.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.functions import arrow_udf

    given = dict(settings)

    def chosen(names: pa.Array, keys: pa.Array, hashes: pa.Array) -> pa.Array:
        return _partitions(names, keys, hashes, lambda wanted: partition_counts(given, wanted))

    import pyarrow as pa

    # Spark reads from the types what kind of function it is, and cannot look up names that are only local.
    chosen.__annotations__ = {"names": pa.Array, "keys": pa.Array, "hashes": pa.Array, "return": pa.Array}
    function: Callable[..., Column] = arrow_udf(chosen, "int")  # type: ignore[call-overload]
    name = F.when(~F.col("topic").isin(list(topics)), F.col("topic")) if topics else F.col("topic")
    found = function(name, F.col("key").cast("binary"), F.xxhash64("value"))
    failed, _ = handlers.FAILED[handlers.PRODUCTION]
    line = F.concat(F.lit(f"{failed}: topic "), "topic", F.lit(" does not exist, and its record cannot be written"))
    return F.when(found != NO_PARTITION, found).when(found == NO_PARTITION, F.raise_error(line).cast("int"))


def partition_counts(settings: Mapping[str, Any], topics: Iterable[str]) -> dict[str, int]:
    """How many partitions topics have; those that do not exist are left out."""
    from ottla.client import Admin

    known = _known.setdefault(str(settings["bootstrap.servers"]), {})
    if len(known) > KNOWN_MAX:
        known.clear()
    wanted, now = set(topics), time.monotonic()
    missing = {topic for topic in wanted if topic not in known or known[topic][1] < now}
    if missing:
        with Admin(dict(settings)) as admin:
            for left in reversed(range(TRIES)):
                there = admin.list_topics(include_internal=True)
                found = sorted(missing & set(there))
                for topic in found:
                    described = admin.describe_topics([topic])[topic].result()
                    known[topic] = len(described.partitions), now + KNOWN_S
                missing -= set(found)
                if not missing or not left:
                    break
                time.sleep(PAUSE_S)
    return {topic: known[topic][0] for topic in wanted - missing}


def _partitions(
    names: pa.Array, keys: pa.Array, hashes: pa.Array, counts_of: Callable[[set[str]], dict[str, int]]
) -> pa.Array:
    """The partition of each row by its key, or by the hash of its value; null without a topic's name."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from ottla.pipelines.sink.partitioning import key_partitions

    counts = counts_of({name for name in pc.unique(names).to_pylist() if name is not None})
    by_row = np.array([counts.get(name, 0) for name in names.to_pylist()], dtype=np.int64)
    result = np.full(len(names), NO_PARTITION, dtype=np.int32)
    no_key = np.asarray(pc.is_null(keys))
    for count in {int(one) for one in by_row} - {0}:
        mine = by_row == count
        by_key = np.asarray(pc.fill_null(key_partitions(keys, count), NO_PARTITION))
        by_value = (np.asarray(hashes) % count).astype(np.int32)
        result[mine] = np.where(no_key, by_value, by_key)[mine]
    return pa.array(result, mask=np.asarray(pc.is_null(names)))
