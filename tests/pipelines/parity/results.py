"""What a side of the parity tests has written: tables by their last values, streams record by record."""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import dataclass

from confluent_kafka import TopicPartition

from tests.pipelines.parity.inputs import CASES
from tests.pipelines.parity.topologies import JOINS
from tests.support.survey import read_to_end

THEIRS, OURS = "theirs", "ours"
Record = tuple[str, str | None]


@dataclass(frozen=True)
class Results:
    """What a side has written, by topic."""

    bootstrap: str
    side: str

    def table(self, name: str) -> dict[str, str]:
        """The last value of each key that has one."""
        rows = dict(self._records(name))
        return {key: value for key, value in rows.items() if value is not None}

    def stream(self, name: str) -> Counter[Record]:
        """Every record, however they are mixed."""
        return Counter(self._records(name))

    def of(self, name: str) -> dict[str, str] | Counter[Record]:
        return self.stream(name) if name.endswith("-final") or name in JOINS else self.table(name)

    def _records(self, name: str) -> list[Record]:
        places = [TopicPartition(f"{self.side}-{name}", number) for number in range(len(CASES))]
        found = read_to_end(self.bootstrap, places, "read_committed")
        return [
            (base64.b64decode(key).decode(), None if value is None else base64.b64decode(value).decode())
            for rows in found.values()
            for _, _, _, key, value, _ in rows
        ]


def difference(wanted: dict[str, str] | Counter[Record], found: dict[str, str] | Counter[Record]) -> str:
    """How many entries are only on one side, and the first of them."""
    missing = [item for item in wanted.items() if item not in found.items()]
    extra = [item for item in found.items() if item not in wanted.items()]
    return f"{len(missing)} missing, such as {missing[:4]}; {len(extra)} too many, such as {extra[:4]}"
