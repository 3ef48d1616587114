"""Fetched batches, decompressed one after another by who needs them, with a second thread's help.

Decompressing takes several times as long as all else that becomes of a record on its way into a column, and the
libraries let go of the GIL for it. So `poll_arrow` hires a helper that decompresses ahead of it; whoever of the two
has nothing to do takes the next batches that nobody has begun.

Promises: sections come in the order of the batches, and each is given once; what cannot be decompressed raises when
it is asked for, and not before. The helper is never needed: nobody waits for one that has not begun. It never waits
itself: it goes when `READY_BYTES_MAX` are ready, and is hired again when they were used. So what is decompressed and
not used yet is no more than that, and what both are at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ottla.records import HEADER_SIZE, Batch
from ottla.types import Buffer
from ottla.world.locks import Parked, new_mutex

PORTION_BYTES = 64 * 1024
"""What one of the two takes at a time, compressed: enough to be worth the words that are changed about it."""
READY_BYTES_MAX = 8 * 1024 * 1024

Hire: TypeAlias = Callable[[Callable[[], object]], object]
"""Runs what it is given on another thread, soon or never."""


class Unpacking:
    """The records of some batches. `close` it when no more of them are wanted."""

    def __init__(self, batches: Sequence[Batch], hire: Hire | None = None) -> None:
        self._batches = batches
        self._portions = _portions(batches)
        self._hire = hire if len(self._portions) > 1 and any(batch.is_compressed for batch in batches) else None
        self._mutex = new_mutex()
        # Under the mutex, all of these.
        self._begun_count = 0
        """Portions that somebody is at or has done: the first ones."""
        self._ready: dict[int, Buffer | Exception] = {}
        self._ready_bytes = 0
        self._is_helped = False
        self._waiting: Parked | None = None

    def section(self, index: int) -> Buffer:
        """The records section of a batch, after those of all batches before it. Raises as `Batch.payload` does."""
        if self._hire is None:
            return _section(self._batches[index])
        while True:
            with self._mutex:
                found = self._ready.pop(index, None)
                if found is not None and not isinstance(found, Exception):
                    self._ready_bytes -= len(found)
            self._call_for_help()
            if isinstance(found, Exception):
                raise found
            if found is not None:
                return found
            portion = self._begin(index)
            if portion is not None:
                self._unpack(portion)
            else:
                self._wait_for(index)

    def close(self) -> None:
        """Begin nothing more. What the helper is at is let go of when it is done."""
        with self._mutex:
            self._begun_count = len(self._portions)
            self._ready.clear()

    def _call_for_help(self) -> None:
        with self._mutex:
            if self._is_helped or self._ready_bytes > READY_BYTES_MAX // 2 or self._is_all_begun:
                return
            self._is_helped = True
        assert self._hire is not None, "without a helper nothing is taken ahead"
        self._hire(self._help)

    def _help(self) -> None:
        """On the helper's thread."""
        while (portion := self._begin(None)) is not None:
            self._unpack(portion)

    @property
    def _is_all_begun(self) -> bool:
        return self._begun_count == len(self._portions)

    def _begin(self, needed: int | None) -> range | None:
        """The next portion, now the caller's to do; None where all are begun, or enough is ready without it.

        `needed` is the batch that is asked for, and None the helper's, who goes with a None.
        """
        with self._mutex:
            portion = None if self._is_all_begun else self._portions[self._begun_count]
            is_needed = portion is not None and needed is not None and needed in portion
            if portion is not None and (is_needed or self._ready_bytes < READY_BYTES_MAX):
                self._begun_count += 1
                return portion
            if needed is None:
                self._is_helped = False
            return None

    def _unpack(self, portion: range) -> None:
        for index in portion:
            found: Buffer | Exception
            try:
                found = _section(self._batches[index])
            except Exception as error:  # noqa: BLE001  it is for whoever asks for the batch
                found = error
            with self._mutex:
                self._ready[index] = found
                self._ready_bytes += 0 if isinstance(found, Exception) else len(found)
                waiting, self._waiting = self._waiting, None
            if waiting is not None:
                waiting.tell()

    def _wait_for(self, index: int) -> None:
        """Until the helper has something new, which may be the batch."""
        with self._mutex:
            if index in self._ready:
                return
            self._waiting = parked = Parked()
        parked.wait(None)


def _section(batch: Batch) -> Buffer:
    return batch.payload() if batch.is_compressed else batch.data[HEADER_SIZE:]


def _portions(batches: Sequence[Batch]) -> list[range]:
    """Runs of batches of about the size of a portion."""
    portions = []
    start = size = 0
    for index, batch in enumerate(batches):
        size += batch.size
        if size >= PORTION_BYTES:
            portions.append(range(start, index + 1))
            start, size = index + 1, 0
    if start < len(batches):
        portions.append(range(start, len(batches)))
    return portions
