"""The transactions that a cleaner passes on its way through a log: which batches were aborted, which markers may go.

Promises: a marker is kept while any batch of its transaction is left before it; the index of aborted transactions that
is written for the cleaned segment names exactly the aborts whose markers and batches are both still there to be read.
Called by `batch_filter` and by the cleaner's first pass, with every batch of the log in order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from ottla.records import Batch, ControlType
from ottla.storage.transaction_index import AbortedTxn, TransactionIndex


class CleanedTransactions:
    """What is open at the cleaner's place in the log."""

    __slots__ = ("_aborted", "_committed", "_has_batches", "_waiting", "cleaned_index")

    def __init__(self) -> None:
        self._waiting: list[tuple[int, AbortedTxn]] = []  # a heap by first offset: not reached yet
        self._aborted: dict[int, AbortedTxn] = {}  # by producer: reached, and the marker is still to come
        self._has_batches: set[int] = set()  # the producers among those that have had a batch
        self._committed: set[int] = set()  # producers with batches of a transaction that is not among the aborted
        self.cleaned_index: TransactionIndex | None = None
        """Where the aborts that stay are written; None while only the offset map is built."""

    def add_aborted(self, aborted: Iterable[AbortedTxn]) -> None:
        """Aborts that overlap what comes next. One that spans two segments may be given twice."""
        for transaction in aborted:
            heapq.heappush(self._waiting, (transaction.first_offset, transaction))

    def pass_batch(self, batch: Batch) -> bool:
        """Note a batch of records; True when its transaction was aborted, so that nobody may read it."""
        self._reach(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._has_batches.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def pass_control_batch(self, batch: Batch) -> bool:
        """Note a control batch; True when it may go, because nothing of its transaction is left before it."""
        self._reach(batch.last_offset)
        keys = batch.scan().keys
        if not keys:
            return True  # emptied by an earlier run
        producer_id = batch.producer_id
        match ControlType.of_key(keys[0]):
            case ControlType.ABORT:
                aborted = self._aborted.pop(producer_id, None)
                if aborted is None or producer_id not in self._has_batches:
                    return True
                self._has_batches.remove(producer_id)
                if self.cleaned_index is not None:
                    self.cleaned_index.append(aborted)
                return False
            case ControlType.COMMIT:
                if producer_id not in self._committed:
                    return True
                self._committed.remove(producer_id)
                return False
        return False

    def _reach(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            aborted = heapq.heappop(self._waiting)[1]
            self._aborted.setdefault(aborted.producer_id, aborted)
