"""The committer of a cluster's run: which of its commits may still come when they are acknowledged."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest

from ottla.client import AsyncConsumer
from ottla.sim import virtual_node_world
from ottla.sim.checks import AcknowledgedRecords, Coordinators
from ottla.sim.history import Violation
from ottla.sim.ledger import Ledger
from ottla.sim.many.workload import BACKOFF_MS_MIN, Committer, Shared


@pytest.mark.parametrize("commit_ms", [BACKOFF_MS_MIN - 1, BACKOFF_MS_MIN])
def test_a_commit_that_took_long_enough_to_be_sent_twice_may_come_again_behind_later_ones(commit_ms: int) -> None:
    """Seed 19 of three nodes: given up with its connection, sent again, acknowledged; and then the first one came."""
    world = virtual_node_world(1)
    ledger = Ledger(world.clock.monotonic_ms)
    ledger.add_group(Committer.group, 1, is_transactional=False)

    class Consumer:
        async def commit(self, offsets: Any) -> None:
            await world.tasks.sleep_ms(commit_ms)

    shared = Shared(
        servers="",
        records=AcknowledgedRecords(),
        ledger=ledger,
        coordinators=Coordinators(ledger.now_ms, ledger.acknowledged),
        coordinator_count=1,
        partition_count=1,
        complain=lambda violation: None,
        trace=lambda line: None,
        count=lambda name: None,
    )
    committer = Committer(world, Random(1), "committer", shared)

    async def commit() -> None:
        consumer = cast("AsyncConsumer[bytes, bytes]", Consumer())
        for end in (24, 63):
            await committer._commit(consumer, {0: end})

    world.loop.run_until_complete(world.tasks.spawn(commit(), "commit"))
    before = ledger.before_fetch(Committer.group)
    assert before == {0: 63}
    if commit_ms < BACKOFF_MS_MIN:
        with pytest.raises(Violation, match="has committed 24 of source-0, and it was 63"):
            ledger.on_offset_fetched("auditor", Committer.group, 0, 24, before)
    else:
        ledger.on_offset_fetched("auditor", Committer.group, 0, 24, before)
        assert ledger.before_fetch(Committer.group) == {0: 63}, "it is the last that counts when all is quiet"
