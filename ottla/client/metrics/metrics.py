"""The metrics of one client: names as Kafka has them, and how each is read.

`Metrics` holds for every name a function that reads it; nothing is computed until somebody asks. Promises: a name is
there once; `snapshot` reads all at the same moment. Called by the parts of a client when they begin and end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.client.metrics.series import Series

Read = Callable[[float], float]
"""From the time, in milliseconds of the client's clock, to the value."""


class MetricName(NamedTuple):
    """A metric's name, group and tags, as Kafka's `MetricName`."""

    name: str
    group: str
    tags: tuple[tuple[str, str], ...] = ()

    def tag(self, name: str) -> str | None:
        """The value of a tag."""
        return dict(self.tags).get(name)

    def __str__(self) -> str:
        return f"{self.group}:{','.join([f'{name}={value}' for name, value in self.tags])}:{self.name}"


class MetricValues(dict[MetricName, float]):
    """What the metrics were at one moment."""

    def value(self, name: str, group: str | None = None, tags: Mapping[str, str] | None = None) -> float:
        """The one metric of this name that has these tags; `KeyError` when there is none, or more than one.

        Without tags it is the one of the whole client: `producer.metrics().value("record-send-total")`; with them
        `value("record-send-total", tags={"topic": "orders"})`.
        """
        wanted = set((tags or {}).items())
        found = [
            one
            for one in self
            if one.name == name
            and (group is None or one.group == group)
            and {tag for tag in one.tags if tag[0] != "client-id" or tag in wanted} == wanted
        ]
        if len(found) != 1:
            raise KeyError(f"{len(found)} metrics are named {name} with the tags {dict(wanted)}")
        return self[found[0]]


class Metrics:
    """The metrics of one client. `clock_ms` is a clock that does not go back."""

    def __init__(
        self, client_id: str, clock_ms: Callable[[], float], *, window_ms: int = 30_000, window_count: int = 2
    ) -> None:
        self.clock_ms = clock_ms
        self._client_tag = ("client-id", client_id)
        self._window_ms = window_ms
        self._window_count = window_count
        self._reads: dict[MetricName, Read] = {}
        self.before_snapshot: list[Callable[[], None]] = []
        """Called before all is read, by who adds things up until then."""

    def series(self, *, window_ms: int | None = None) -> Series:
        """A new series over this client's windows, or over longer ones."""
        return Series(window_ms=window_ms or self._window_ms, window_count=self._window_count)

    def add(self, group: str, name: str, read: Read, tags: Mapping[str, str] | None = None) -> MetricName:
        """Have a metric from now on."""
        metric = MetricName(name, group, (self._client_tag, *(tags or {}).items()))
        assert metric not in self._reads, f"{metric} is there already"
        self._reads[metric] = read
        return metric

    def add_average(self, series: Series, group: str, name: str, tags: Mapping[str, str] | None = None) -> None:
        """`name-avg` and `name-max`."""
        self.add(group, f"{name}-avg", series.average, tags)
        self.add(group, f"{name}-max", series.maximum, tags)

    def add_meter(self, series: Series, group: str, name: str, tags: Mapping[str, str] | None = None) -> None:
        """`name-rate` and `name-total` of the values' sum."""
        self.add(group, f"{name}-rate", series.rate, tags)
        self.add(group, f"{name}-total", lambda now_ms: series.total, tags)

    def add_counter(self, series: Series, group: str, name: str, tags: Mapping[str, str] | None = None) -> None:
        """`name-rate` and `name-total` of the values' number."""
        self.add(group, f"{name}-rate", series.count_rate, tags)
        self.add(group, f"{name}-total", lambda now_ms: series.count, tags)

    def remove(self, group: str, tags: Mapping[str, str]) -> None:
        """Forget the group's metrics with exactly these tags."""
        gone = (self._client_tag, *tags.items())
        for metric in [one for one in self._reads if one.group == group and one.tags == gone]:
            del self._reads[metric]

    def names(self) -> Iterable[MetricName]:
        return self._reads.keys()

    def snapshot(self) -> MetricValues:
        """What each metric is now."""
        for call in self.before_snapshot:
            call()
        now_ms = self.clock_ms()
        return MetricValues((metric, float(read(now_ms))) for metric, read in self._reads.items())
