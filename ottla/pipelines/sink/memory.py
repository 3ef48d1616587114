"""Which batches of a query the exactly-once sink has written, and under which names it remembers them.

The memory of a batch is an offset of the group that is named like the transactional id, with the query's name as its
metadata (`transaction`). That name is Spark's id of the query: it is made with a checkpoint and moves with it, and a
new checkpoint has a new one. Topologies once gave other names to their queries in update mode, which are still looked
for: `ottla-<query id>`, and a hash of the checkpoint's address where that is remote.

Promises: a batch counts as written when it is the last one that was, as after a driver that died before Spark noted it.
An earlier batch would be left out with whatever it reads now, so it is refused. Pure. Called by `exactly_once`, and by
the snapshots of `ottla.pipelines.streams`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.pipelines.errors import PipelineError


class CheckpointBehind(PipelineError):
    """A batch to write comes before the last one that the sink has written."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The batch that was committed last under a name: `[0, next_batch_id)` of the query `query_id` are written."""

    next_batch_id: int
    query_id: str


def sink_name(query_id: str) -> str:
    """What the transactions of a query are named after that was given no name."""
    return f"ottla-{query_id}"


def query_names(query_id: str) -> tuple[str, str]:
    """The names under which a query's batches may be remembered, the newest first."""
    return query_id, sink_name(query_id)


def is_written(
    committed: Iterable[Committed], batch_id: int, query_id: str, *, group: str, address_name: str = ""
) -> bool:
    """Whether the sink has written this batch. `CheckpointBehind` where it has written later ones, or where it cannot
    tell: under `address_name`, the hash of an address, another checkpoint may have been remembered."""
    last = {one.query_id: one.next_batch_id - 1 for one in committed}
    names = query_names(query_id)
    name = next((one for one in (*names, address_name) if one in last), None)
    if name is None or batch_id > last[name]:
        return False
    # A new checkpoint begins with batch 0, and stops here if another one had its address.
    if batch_id == last[name] and (batch_id > 0 or name in names):
        return True
    forget = f"delete the consumer group {group} (kafka-consumer-groups --delete --group {group}), and they are written"
    if name in names:
        raise CheckpointBehind(
            f"Batch {batch_id} is to be written, and the sink has written batch {last[name]} of this query already: "
            "the checkpoint is an old copy. Its next batches would be left out. Restore a newer copy, or, to write "
            f"again what came after this one, {forget}"
        )
    raise CheckpointBehind(
        f"Batch {batch_id} is to be written, and the sink has written batch {last[name]} of a query whose checkpoint "
        f"had the same address. If this checkpoint is new, {forget}"
    )
