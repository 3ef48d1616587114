"""A chance for the virtual disk that always decides against the node."""

from __future__ import annotations

from random import Random


class Unkind(Random):
    """Nothing arrives that was not synced: no name, no size and no data, unless `keeps_data`."""

    def __init__(self) -> None:
        super().__init__(0)
        self.keeps_data = False

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        # Of three, 0 says that no ordered step arrived; of four, 0 says that all data did and 1 that none did.
        return 0 if start != 4 or self.keeps_data else 1

    def getrandbits(self, k: int, /) -> int:
        return 0
