"""What a side of the parity tests has written: tables by their last values, streams record by record; with times."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import TopicPartition

from tests.pipelines.parity.inputs import CASES
from tests.pipelines.parity.topologies import ROUTES, STREAMS
from tests.support.survey import read_to_end

THEIRS, OURS = "theirs", "ours"
Value = tuple[str | None, int | None]
"""A value and its record's time."""
Record = tuple[str, Value]
TIME_BY_CHANCE = ("orders-inner", "orders-left")
"""A foreign-key join's rows: which of several answers with the same content Kafka Streams takes last hangs on chance,
and the row's time with it."""


@dataclass(frozen=True)
class Results:
    """What a side has written, by topic."""

    bootstrap: str
    side: str

    def table(self, name: str) -> dict[str, Value]:
        """The last value of each key that has one."""
        rows = dict(self._records(name))
        return {key: (value, at) for key, (value, at) in rows.items() if value is not None}

    def stream(self, name: str) -> Counter[Record]:
        """Every record, however they are mixed."""
        return Counter(self._records(name))

    def of(self, name: str) -> dict[str, Value] | Counter[Record]:
        return self.stream(name) if name.endswith("-final") or name in STREAMS else self.table(name)

    def _records(self, name: str) -> list[Record]:
        places = [TopicPartition(f"{self.side}-{name}", number) for number in range(len(CASES))]
        found = read_to_end(self.bootstrap, places, "read_committed")
        has_headers, has_time = name in ROUTES, name not in TIME_BY_CHANCE
        return [
            (_text(key) or "", (_text(value, headers if has_headers else ()), at if has_time else None))
            for rows in found.values()
            for _, _, at, key, value, headers in rows
        ]


def _text(encoded: str | None, headers: Sequence[Sequence[str | None]] = ()) -> str | None:
    """What was written, with its headers where they count."""
    shown = "".join(f" {name}={_text(content)}" for name, content in headers)
    return None if encoded is None else base64.b64decode(encoded).decode() + shown


def difference(wanted: dict[str, Value] | Counter[Record], found: dict[str, Value] | Counter[Record]) -> str:
    """How many entries are only on one side, and the first of them."""
    missing = [item for item in wanted.items() if item not in found.items()]
    extra = [item for item in found.items() if item not in wanted.items()]
    return f"{len(missing)} missing, such as {missing[:4]}; {len(extra)} too many, such as {extra[:4]}"
