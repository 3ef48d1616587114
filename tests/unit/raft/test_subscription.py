"""A listener's place in the metadata log, where the log ends before the listener has caught up."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ottla.errors import KafkaStorageError
from ottla.raft.subscription import Subscription
from ottla.world.threads import running_world


class ClosedLog:
    """A log that has something to tell, and is closed when it is read."""

    start_offset = 0
    high_watermark = 5

    def latest_snapshot(self) -> None:
        return None

    def read_committed(self, offset: int) -> list[Any]:
        raise KafkaStorageError("The log of __cluster_metadata-0 is already closed")


def test_a_listener_that_has_not_caught_up_reads_nothing_of_a_log_that_was_closed() -> None:
    """A node that was stopped right after its start said that its metadata log had failed, as ERROR and FATAL."""

    async def catch_up(*, is_closed: bool) -> list[BaseException]:
        failures: list[BaseException] = []
        subscription = Subscription(
            cast(Any, object()),
            running_world().tasks,
            log_of=lambda: cast(Any, ClosedLog()),
            on_caught_up=lambda: None,
            on_error=failures.append,
        )

        def is_busy() -> bool:
            return subscription.is_busy

        subscription.on_commit([])
        assert is_busy()
        if is_closed:
            subscription.close()
        while is_busy():
            await asyncio.sleep(0)
        return failures

    assert asyncio.run(catch_up(is_closed=True)) == []
    assert len(asyncio.run(catch_up(is_closed=False))) == 1, "a log that is not meant to be closed has failed"
