"""What one listener has been told, and what it is to be told next.

Promises: a listener is told everything once and in order: a snapshot where the log does not reach back to what it
knows, then the batches. It hears that this node leads only after everything that was committed before the epoch began.
A listener that joins late catches up in steps, so that others get their turn. One that raises ends the node: its state
would no longer be what the log says.
Called by `driver`.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.raft.listener import CommittedBatch, Listener
from ottla.raft.metadata_log import MetadataLog
from ottla.world import Tasks


class Subscription:
    """One listener's place in the log."""

    def __init__(
        self,
        listener: Listener,
        tasks: Tasks,
        *,
        log_of: Callable[[], MetadataLog],
        on_caught_up: Callable[[], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self.listener = listener
        self._tasks = tasks
        self._log_of = log_of
        self._on_caught_up = on_caught_up
        self._on_error = on_error
        self.next_offset: int | None = None
        """The first offset it has not been told; None when it has been told nothing."""
        self.is_busy = False
        """Whether it is catching up."""
        self._is_closed = False
        self._leadership: tuple[int, int] | None = None
        self._told_epoch: int | None = None

    def on_commit(self, fresh: list[CommittedBatch]) -> None:
        """The high watermark has moved; `fresh` are the newest batches below it, if they are at hand."""
        if self.is_busy or self._is_closed:
            return
        if fresh and self.next_offset == fresh[0].base_offset:
            try:
                self._tell(fresh)
                self._tell_leader()
            except Exception as error:  # noqa: BLE001  whatever it is, this listener's state is no longer the log's
                self._on_error(error)
        elif not self.is_at(self._log_of().high_watermark):
            self.is_busy = True
            self._tasks.spawn(self._catch_up(), "raft-catch-up")

    def is_at(self, offset: int) -> bool:
        """Whether it has been told everything below `offset`."""
        return self.next_offset is not None and self.next_offset >= offset

    def on_leader(self, epoch: int, epoch_start_offset: int) -> None:
        """This node leads; the listener is told when it has come that far."""
        self._leadership = (epoch, epoch_start_offset)
        if not self.is_busy:
            self._tell_leader()

    def on_resign(self) -> None:
        """This node leads no more; a listener that did not know it did need not hear it."""
        self._leadership = None
        if self._told_epoch is not None:
            self._told_epoch = None
            self.listener.on_resign()

    def close(self) -> None:
        """Read nothing more: the log is about to be closed, also under a listener that has not caught up."""
        self._is_closed = True

    def _tell(self, batches: list[CommittedBatch]) -> None:
        self.next_offset = batches[-1].end_offset
        self.listener.on_commit(batches)

    def _tell_leader(self) -> None:
        if self._leadership is None or self.next_offset is None:
            return
        epoch, epoch_start_offset = self._leadership
        if self._told_epoch != epoch and self.next_offset > epoch_start_offset:
            self._told_epoch = epoch
            self.listener.on_leader(epoch)

    async def _catch_up(self) -> None:
        try:
            log = self._log_of()
            while not self._is_closed and not self.is_at(log.high_watermark):
                self._step(log)
                await self._tasks.sleep_ms(0)
            self._tell_leader()
        except Exception as error:  # noqa: BLE001  see `on_commit`
            self._on_error(error)
        finally:
            self.is_busy = False
            self._on_caught_up()

    def _step(self, log: MetadataLog) -> None:
        """Tell one snapshot, or the batches of one read."""
        if self.next_offset is None or self.next_offset < log.start_offset:
            snapshot = log.latest_snapshot()
            if snapshot is None:
                assert log.start_offset == 0, f"the log begins at {log.start_offset} and has no snapshot"
                self.next_offset = 0
            else:
                self.next_offset = snapshot.offset
                self.listener.on_snapshot(
                    snapshot.records(),
                    offset=snapshot.offset - 1,
                    epoch=snapshot.epoch,
                    timestamp_ms=snapshot.last_contained_log_timestamp,
                )
            return
        batches = log.read_committed(self.next_offset)
        assert batches, f"nothing to read at {self.next_offset}, below {log.high_watermark}"
        self._tell(batches)
