"""How far streaming queries are behind their topics: the metrics that Spark's own connector has for it.

Spark lets no source in Python put figures into `StreamingQueryProgress.sources[].metrics`. The offsets are in the
progress, so the same figures come from there: `offsets_behind_latest(progress)` for one micro-batch, and `LagListener`
for the newest micro-batch of every query, in Prometheus' text form too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener

from ottla.pipelines.source.offsets import Offsets, from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

Figures = dict[str, float]
"""A source's figures by the names that Spark's connector gives them; none for what does not read topics."""

PAGE = {
    "minOffsetsBehindLatest": (
        "ottla_source_min_offsets_behind_latest",
        "Offsets between what a query has read of its most advanced partition and the end of that partition.",
    ),
    "maxOffsetsBehindLatest": (
        "ottla_source_max_offsets_behind_latest",
        "Offsets between what a query has read of its least advanced partition and the end of that partition.",
    ),
    "avgOffsetsBehindLatest": (
        "ottla_source_avg_offsets_behind_latest",
        "Offsets between what a query has read of a partition and the end of that partition, on average.",
    ),
}
"""The names and the help texts of the page for Prometheus."""


class Seen(NamedTuple):
    """The newest micro-batch of one run of a query."""

    query: str
    sources: list[Figures]


def offsets_behind_latest(progress: Mapping[str, Any]) -> list[Figures]:
    """`minOffsetsBehindLatest`, `maxOffsetsBehindLatest` and `avgOffsetsBehindLatest` of each source, over its
    partitions, when the micro-batch was planned: `latestOffset` minus `endOffset`.

    Takes what `query.lastProgress` gives, or its JSON as a dictionary. The figures are those of that micro-batch: a
    query that has failed, or that is in a long one, says nothing newer.
    """
    return [_behind(_offsets(one["endOffset"]), _offsets(one["latestOffset"])) for one in progress["sources"]]


def _offsets(told: object) -> Offsets:
    """The offsets of partitions; none where it is not that: another kind of source, or nothing is known yet."""
    try:
        return from_json(json.loads(told) if isinstance(told, str) else told)
    except ValueError:
        return {}


def _behind(end: Offsets, latest: Offsets) -> Figures:
    if not end or not latest:
        return {}
    behind = [offset - end.get(one, 0) for one, offset in latest.items()]
    return {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


class LagListener(StreamingQueryListener):
    """Knows how far every running query of a session is behind: `spark.streams.addListener(LagListener())`."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}
        """By the id of the run. As many as there are queries: one that ends is forgotten."""

    def figures(self) -> dict[str, list[Figures]]:
        """The figures of each running query, by its name or, where it has none, its id; a list, one for each source."""
        return {one.query: one.sources for one in list(self._seen.values())}

    def prometheus(self) -> str:
        """The figures in Prometheus' text form, version 0.0.4."""
        lines: list[str] = []
        seen = list(self._seen.values())
        for name, (shown, what) in PAGE.items():
            values = [
                f'{shown}{{query="{_escaped(one.query)}",source="{number}"}} {figures[name]}'
                for one in seen
                for number, figures in enumerate(one.sources)
                if name in figures
            ]
            if values:
                lines += [f"# HELP {shown} {what}", f"# TYPE {shown} gauge", *values]
        return "".join(f"{line}\n" for line in lines)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A micro-batch is done, or there is nothing new."""
        progress = event.progress
        name = progress.name or str(progress.id)
        self._seen[str(progress.runId)] = Seen(name, offsets_behind_latest(progress))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nobody has to catch up any more."""
        self._seen.pop(str(event.runId), None)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """What was said last still holds: there is nothing new."""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
