"""A chance for the virtual disk that always decides against the node."""

from __future__ import annotations

from random import Random


class Unkind(Random):
    """Nothing arrives that was not synced: no data unless `keeps_data`, no name and no size unless `keeps_names`."""

    def __init__(self) -> None:
        super().__init__(0)
        self.keeps_data = False
        self.keeps_names = False

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        # Of three, 0 says that no ordered step arrived and 1 that all did; of four, it is the other way round for data.
        if start == 3:
            return int(self.keeps_names)
        return int(start == 4 and not self.keeps_data)

    def getrandbits(self, k: int, /) -> int:
        return 0
