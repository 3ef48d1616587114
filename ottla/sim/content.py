"""The bytes of one virtual file: as the node sees them, as the device holds them, and what lies between.

A write changes what is seen at once and is remembered until `sync` moves it to the device. When the power goes,
`lose` decides what of the rest had reached the device by itself. The model, after a page cache over a device of
512-byte sectors and a journal for sizes:

- A sector is written whole or not at all, with all that the cache held for it at that moment: a later write to a
  sector never arrives without the earlier ones. Different sectors arrive in any order. So a write of several sectors
  may survive, vanish, or be torn: only its first sectors, or any of them.
- Sizes follow the order of the operations and stop at some point of it, regardless of the data. A file may have
  grown and hold zeros where data did not arrive, or hold the data and not have grown, which hides it.
- A truncation is a change of size. One that did not arrive leaves the old end in place, except that the rest of the
  sector at the cut may be zero already; what was written behind the cut later is then lost with it.
- Nothing appears that was never written, except zeros.

A `sync` that fails leaves the node with the data in sight while the device has dropped any part of it, and a later
`sync` does not try it again: so Linux behaves, and so a log that carries on after a failed fsync loses data.

Promises: the cost of an operation grows with what it writes, not with the size of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

SECTOR = 512


class Write(NamedTuple):
    """Bytes put at a position, not yet synced."""

    position: int
    data: bytes


class Resize(NamedTuple):
    """A size given to the file, by `truncate` or `allocate`, not yet synced."""

    size: int


class Content:
    """The bytes of one file."""

    __slots__ = ("_device", "_pending", "seen")

    def __init__(self) -> None:
        self.seen = bytearray()
        """What the node reads."""
        self._device = bytearray()
        self._pending: list[Write | Resize] = []

    def read(self, position: int, size: int) -> bytes:
        return bytes(memoryview(self.seen)[position : position + size])

    def write(self, position: int, data: bytes) -> None:
        """Put `data` at `position`; a gap before it reads as zeros."""
        if data:
            _put(self.seen, position, data)
            self._pending.append(Write(position, data))

    def resize(self, size: int) -> None:
        """Cut to `size`, or extend to it with zeros."""
        _resize(self.seen, size)
        self._pending.append(Resize(size))

    def sync(self) -> None:
        """Move everything to the device."""
        device = self._device
        for change in self._pending:
            if isinstance(change, Write):
                _put(device, change.position, change.data)
            else:
                _resize(device, change.size)
        # After a failed sync the device may hold less than the sizes that were seen then.
        _resize(device, len(self.seen))
        self._pending.clear()

    def fail_sync(self, chance: Random) -> None:
        """What a failed `sync` leaves: any part of the data on the device, and nothing that would be tried again."""
        if self._pending:
            self._device = self._survivors(chance)[0]
            self._pending.clear()

    def lose(self, chance: Random) -> str:
        """The power goes: what is on the device is now all there is. Says what became of the rest."""
        if not self._pending:
            told = "" if self.seen == self._device else "what a failed sync dropped is gone"
        else:
            self._device, told = self._survivors(chance)
            self._pending.clear()
        self.seen = bytearray(self._device)
        return told

    def _survivors(self, chance: Random) -> tuple[bytearray, str]:
        """The file as the device would hold it if the power went now, and a line about it."""
        changes = self._pending
        sized = point(chance, len(changes))
        arrived, fates = _arrivals(changes, sized, chance)
        image = bytearray(self._device)
        size = len(image)
        for index, change in enumerate(changes):
            if isinstance(change, Write):
                # A sector that arrives at or after this write carries it.
                for start, end in _carried(change, index, arrived):
                    _put(image, start, change.data[start - change.position : end - change.position])
                if index < sized:
                    size = max(size, change.position + len(change.data))
            elif index < sized:
                size = change.size
                del image[size:]
            else:
                tail = change.size % SECTOR
                if tail and arrived.get(change.size // SECTOR, -1) >= index:
                    end = min(len(image), change.size + SECTOR - tail)
                    image[change.size : end] = bytes(max(0, end - change.size))
        _resize(image, size)
        told = ", ".join(f"{count} {fate}" for fate, count in fates.items())
        return (
            image,
            f"{told or 'no writes'}; {sized} of {len(changes)} sizes arrived: {size} of {len(self.seen)} bytes",
        )


def _put(image: bytearray, position: int, data: bytes) -> None:
    size = len(image)
    if position == size:
        image += data
        return
    if position > size:
        image.extend(bytes(position - size))
    image[position : position + len(data)] = data


def _resize(image: bytearray, size: int) -> None:
    if size < len(image):
        del image[size:]
    else:
        image.extend(bytes(size - len(image)))


def point(chance: Random, count: int) -> int:
    """How many of `count` ordered steps arrived: none and all are as likely as something between."""
    match chance.randrange(3):
        case 0:
            return 0
        case 1:
            return count
        case _:
            return chance.randrange(count + 1)


def _arrivals(changes: Sequence[Write | Resize], sized: int, chance: Random) -> tuple[dict[int, int], Counter[str]]:
    """For each sector that reached the device, the last change it carried; and what became of the writes.

    The first `sized` changes of size arrived. Behind a cut that did not, sectors are new ones that no size leads to.
    """
    arrived: dict[int, int] = {}
    fates: Counter[str] = Counter()
    fate_of = _fates(len(changes), chance)
    reachable = (1 << 63) // SECTOR
    for index, change in enumerate(changes):
        fate = fate_of[index]
        if isinstance(change, Resize):
            if index >= sized:
                at_cut = change.size // SECTOR
                if fate == _KEPT and at_cut < reachable:
                    arrived[at_cut] = index
                reachable = min(reachable, -(-change.size // SECTOR))
            continue
        first, last = change.position // SECTOR, (change.position + len(change.data) - 1) // SECTOR
        count = 0
        for sector in _sectors(first, last, fate, chance):
            if sector < reachable:
                arrived[sector] = index
                count += 1
        fates["kept" if count == last - first + 1 else "torn" if count else "lost"] += 1
    return arrived, fates


_KEPT, _LOST, _HEAD, _SOME = range(4)


def _fates(count: int, chance: Random) -> list[int]:
    """What happens to each of `count` changes: all kept, all lost, those up to a point kept, or each its own way."""
    match chance.randrange(4):
        case 0:
            return [_KEPT] * count
        case 1:
            return [_LOST] * count
        case 2:
            kept = chance.randrange(count)
            return [_KEPT] * kept + [_HEAD] + [_LOST] * (count - kept - 1)
        case _:
            return [chance.randrange(4) for _ in range(count)]


def _sectors(first: int, last: int, fate: int, chance: Random) -> Sequence[int]:
    """Which of the sectors `first..last` arrive, under a fate."""
    if fate == _KEPT:
        return range(first, last + 1)
    if fate == _HEAD:
        return range(first, first + chance.randrange(last - first + 1))
    if fate == _SOME:
        chosen = chance.getrandbits(last - first + 1)
        return [sector for sector in range(first, last + 1) if chosen >> (sector - first) & 1]
    return ()


def _carried(write: Write, index: int, arrived: dict[int, int]) -> Iterator[tuple[int, int]]:
    """The byte ranges of a write that reached the device, neighbouring sectors joined."""
    end = write.position + len(write.data)
    start = None
    for sector in range(write.position // SECTOR, (end - 1) // SECTOR + 1):
        if arrived.get(sector, -1) >= index:
            if start is None:
                start = max(write.position, sector * SECTOR)
        elif start is not None:
            yield start, sector * SECTOR
            start = None
    if start is not None:
        yield start, end
