"""Fetched batches, decompressed one after another by who needs them, with a second thread's help.

Decompressing takes several times as long as all else that becomes of a record on its way into a column, and the
libraries let go of the GIL for it. So `poll_arrow` has a helper that decompresses what has arrived, ahead of the one
who asks for it; whoever of the two has nothing to do takes the next batches that nobody has begun.

Promises: sections come in the order of the batches, and each is given once; what cannot be decompressed raises when
it is asked for, and not before. The helper is never needed: nobody waits for one that has not begun. It never waits
itself: it goes when `READY_BYTES_MAX` are ready, and is hired again when they were used. So what is decompressed and
not used yet is no more than that, and what both are at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ottla.records import DECOMPRESSED_BYTES_MAX, Batch
from ottla.world.locks import Parked, new_mutex

PORTION_BYTES = 64 * 1024
"""What one of the two takes at a time, compressed: enough to be worth the words that are changed about it."""
READY_BYTES_MAX = 24 * 1024 * 1024
"""Enough for one `poll_arrow` while another is being used."""

Hire: TypeAlias = Callable[[Callable[[], object]], object]
"""Runs what it is given on another thread, soon or never."""


class Helper:
    """The second thread, for all that a consumer has fetched: those who called first are helped first."""

    def __init__(self, hire: Hire) -> None:
        self._hire = hire
        self.mutex = new_mutex()
        """Over all that follows, and over what the unpackings share with it."""
        self.ready_bytes = 0
        self._callers: deque[Unpacking] = deque()
        self._is_here = False

    def call(self, caller: Unpacking) -> None:
        """Help the caller, after those who called before it."""
        with self.mutex:
            self._callers.append(caller)
        self.call_again()

    def call_again(self) -> None:
        """Something was used: there may be room for more."""
        with self.mutex:
            if self._is_here or not self._callers or self.ready_bytes > READY_BYTES_MAX // 2:
                return
            self._is_here = True
        self._hire(self._help)

    def _help(self) -> None:
        """On the helper's thread."""
        while (begun := self._begin()) is not None:
            caller, portion = begun
            caller.unpack(portion)

    def _begin(self) -> tuple[Unpacking, range] | None:
        with self.mutex:
            while self._callers and self.ready_bytes < READY_BYTES_MAX:
                caller = self._callers[0]
                portion = caller.begin()
                if portion is not None:
                    return caller, portion
                self._callers.popleft()
            self._is_here = False
            return None


class Unpacking:
    """The records of some compressed batches. `close` it when no more of them are wanted."""

    def __init__(self, batches: Sequence[Batch], helper: Helper) -> None:
        self._batches = batches
        self._portions = _portions(batches)
        self._helper = helper
        self._mutex = helper.mutex
        # Under the mutex, all of these.
        self._begun_count = 0
        """Portions that somebody is at or has done: the first ones."""
        self._doing: set[int] = set()
        """Batches of portions that somebody is at."""
        self._ready: dict[int, bytes | Exception] = {}
        self._is_closed = False
        self._waiting: Parked | None = None
        if len(self._portions) > 1:
            helper.call(self)

    def section(self, index: int) -> bytes:
        """The records section of a batch, asked for once, after those of all batches before it. Raises as
        `Batch.payload` does."""
        while True:
            with self._mutex:
                found = self._ready.pop(index, None)
                self._helper.ready_bytes -= _size(found)
                is_due = found is None and index not in self._doing and not self._is_ahead(index)
            self._helper.call_again()
            if isinstance(found, Exception):
                raise found
            if found is not None:
                return found
            if is_due:
                return self._batches[index].payload()  # it was given before
            with self._mutex:
                # The next portion, even if the helper is at the batch itself, unless enough is ready without it.
                has_room = self._is_ahead(index) or self._helper.ready_bytes < READY_BYTES_MAX
                portion = self.begin() if has_room else None
            if portion is not None:
                self.unpack(portion)
            else:
                self._wait_for(index)

    def close(self) -> None:
        """Begin nothing more. What the helper is at is let go of when it is done."""
        with self._mutex:
            self._is_closed = True
            self._begun_count = len(self._portions)
            self._helper.ready_bytes -= sum(map(_size, self._ready.values()))
            self._ready.clear()

    def begin(self) -> range | None:
        """The next portion, now the caller's to do; None where all are begun. Under the mutex."""
        if self._begun_count == len(self._portions):
            return None
        portion = self._portions[self._begun_count]
        self._begun_count += 1
        self._doing.update(portion)
        return portion

    def unpack(self, portion: range) -> None:
        """Make the sections of a portion ready, for who asks for them."""
        for index in portion:
            found: bytes | Exception
            try:
                found = self._batches[index].payload()
            except Exception as error:  # noqa: BLE001  it is for whoever asks for the batch
                found = error
            with self._mutex:
                self._doing.discard(index)
                if not self._is_closed:
                    self._ready[index] = found
                    self._helper.ready_bytes += _size(found)
                waiting, self._waiting = self._waiting, None
            if waiting is not None:
                waiting.tell()

    def _is_ahead(self, index: int) -> bool:
        """Whether nobody has begun the batch."""
        return self._begun_count < len(self._portions) and index >= self._portions[self._begun_count].start

    def _wait_for(self, index: int) -> None:
        """Until the helper has something new, which may be the batch."""
        with self._mutex:
            if index not in self._doing:
                return
            self._waiting = parked = Parked()
        parked.wait(None)


def _size(found: bytes | Exception | None) -> int:
    return 0 if found is None or isinstance(found, Exception) else len(found)


class AheadBatch(Batch):
    """A batch that somebody decompresses ahead of who asks for its records."""

    __slots__ = ("_index", "unpacking")

    def __init__(self, batch: Batch, unpacking: Unpacking, index: int) -> None:
        super().__init__(batch.buffer, batch.position)
        self.unpacking = unpacking
        self._index = index

    def payload(self, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
        """The records section, as the unpacking gives it; with a bound of the caller's own it is made here."""
        if bytes_max != DECOMPRESSED_BYTES_MAX:
            return super().payload(bytes_max=bytes_max)
        return self.unpacking.section(self._index)


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
