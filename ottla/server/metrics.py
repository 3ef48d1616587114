"""Counters of what the server does, under Kafka's names, as plain numbers: counting costs an addition.

A name here is Kafka's `group:type=T,name=N` with its tags (kafka-facts/metrics.txt); `exposition` writes them in
Prometheus' text form under the names that the usual JMX exporter gives them, so dashboards made for Kafka work:
`kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec` is `kafka_server_brokertopicmetrics_bytesin_total`.
Rates are left to whoever scrapes: a counter and two readings give any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

_BUCKETS = 33
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)

Tags = Mapping[str, str]


class Counter:
    """Something that is counted and never goes down."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def mark(self, count: int = 1) -> None:
        self.count += count


class Histogram:
    """The distribution of a whole number, in buckets of powers of two: exact at 0 and 1, within a factor of 2 above."""

    __slots__ = ("buckets", "count", "largest", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.largest = 0
        self.buckets = [0] * _BUCKETS

    def update(self, value: int) -> None:
        self.update_many(value, 1)

    def update_many(self, value: int, count: int) -> None:
        """The same value `count` times; one below zero counts as zero."""
        self.count += count
        if value > 0 and count:
            self.total += value * count
            if value > self.largest:
                self.largest = value
            length = value.bit_length()
            self.buckets[length if length < _BUCKETS else _BUCKETS - 1] += count
        else:
            self.buckets[0] += count

    def quantile(self, fraction: float) -> int:
        """A value that at least `fraction` of all values do not exceed."""
        wanted = fraction * self.count
        seen = 0
        for length, count in enumerate(self.buckets):
            seen += count
            if count and seen >= wanted:
                return min((1 << length) - 1, self.largest)
        return 0


class ApiMetrics:
    """What is counted of one version of one API; all versions of an API share its histograms.

    A session counts a request with three additions (`requests`, `sizes`, `instant`); `settle` takes the last two over
    into the histograms before anybody looks.
    """

    __slots__ = (
        "errors",
        "instant",
        "local_time_ms",
        "request_bytes",
        "requests",
        "response_bytes",
        "sizes",
        "total_time_ms",
    )

    def __init__(self, total_time_ms: Histogram, local_time_ms: Histogram, request_bytes: Histogram) -> None:
        self.requests = 0
        self.instant = 0
        """Requests answered in less than a millisecond."""
        self.sizes = [0] * 32
        """How many requests had a size of that many bits: a frame has at most 31."""
        self.response_bytes = 0
        self.total_time_ms = total_time_ms
        self.local_time_ms = local_time_ms
        self.request_bytes = request_bytes
        self.errors: dict[str, int] = {}

    def settle(self) -> None:
        self.total_time_ms.update_many(0, self.instant)
        self.local_time_ms.update_many(0, self.instant)
        self.instant = 0
        for bits, count in enumerate(self.sizes):
            if count:
                # A size is known to its bits: three quarters of the largest of them is right on average.
                self.request_bytes.update_many(3 << bits >> 2, count)
                self.sizes[bits] = 0

    def count_error(self, name: str, count: int = 1) -> None:
        self.errors[name] = self.errors.get(name, 0) + count


class Average:
    """The mean of what was recorded."""

    __slots__ = ("_count", "_total")

    def __init__(self) -> None:
        self._count = 0
        self._total = 0

    def record(self, value: int) -> None:
        self._count += 1
        self._total += value

    @property
    def value(self) -> float:
        return self._total / self._count if self._count else 0.0


class ListenerMetrics:
    """What is counted of one listener's connections."""

    __slots__ = ("bytes_in", "bytes_out", "closed", "created", "expired", "ip_throttles", "refused", "throttles")

    def __init__(self) -> None:
        self.created = 0
        self.closed = 0
        self.refused = 0
        self.expired = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.throttles = Average()
        """For how long connections had to wait because they came too fast, when they had to."""
        self.ip_throttles = Average()
        """The same for addresses that connect too often."""


class Metrics:
    """The registry. Counters are made once and kept by whoever counts; gauges are asked when somebody looks."""

    def __init__(self) -> None:
        self._apis: dict[tuple[str, int], ApiMetrics] = {}
        self._listeners: dict[str, ListenerMetrics] = {}
        self._counters: dict[tuple[str, tuple[tuple[str, str], ...]], Counter] = {}
        self._histograms: dict[tuple[str, tuple[tuple[str, str], ...]], Histogram] = {}
        self._gauges: list[tuple[str, dict[str, str], Callable[[], float]]] = []
        self._families: list[tuple[str, str, Callable[[], Iterable[tuple[Tags, float]]]]] = []
        self._collectors: list[Callable[[], Iterable[tuple[str, str, Tags, float]]]] = []

    def api(self, name: str, version: int) -> ApiMetrics:
        """The metrics of one version of an API."""
        found = self._apis.get((name, version))
        if found is None:
            found = self._apis[name, version] = ApiMetrics(
                *(
                    self.histogram(f"kafka.network:type=RequestMetrics,name={kind}", request=name)
                    for kind in ("TotalTimeMs", "LocalTimeMs", "RequestBytes")
                )
            )
        return found

    def listener(self, name: str) -> ListenerMetrics:
        return self._listeners.setdefault(name, ListenerMetrics())

    @property
    def expired_connection_count(self) -> int:
        """Connections of all listeners that were closed because they were idle."""
        return sum(listener.expired for listener in self._listeners.values())

    def counter(self, name: str, **tags: str) -> Counter:
        """The counter of a name ending in `PerSec` or of any other event; the same one for the same name and tags."""
        return self._counters.setdefault((name, tuple(tags.items())), Counter())

    def histogram(self, name: str, **tags: str) -> Histogram:
        return self._histograms.setdefault((name, tuple(tags.items())), Histogram())

    def gauge(self, name: str, read: Callable[[], float], **tags: str) -> None:
        """A value that is read when somebody looks."""
        self._gauges.append((name, tags, read))

    def family(self, name: str, read: Callable[[], Iterable[tuple[Tags, float]]], *, kind: str = "gauge") -> None:
        """Values of one name whose tags come and go, such as one for each partition."""
        self._families.append((name, kind, read))

    def collector(self, read: Callable[[], Iterable[tuple[str, str, Tags, float]]]) -> None:
        """Values that somebody else keeps together: names, kinds, tags and values."""
        self._collectors.append(read)

    def exposition(self) -> str:
        """All metrics in Prometheus' text form, version 0.0.4."""
        return self._read().text()

    def names(self) -> list[str]:
        """Kafka's names of all metrics that a page would show now."""
        return self._read().names

    def _read(self) -> _Page:
        page = _Page()
        for api in self._apis.values():
            api.settle()
        for (name, version), api in self._apis.items():
            tags = {"request": name, "version": str(version)}
            page.add("kafka.network:type=RequestMetrics,name=RequestsPerSec", "counter", tags, api.requests)
            page.add("kafka.network:type=RequestMetrics,name=ResponseBytes", "counter", tags, api.response_bytes)
        for (name, _version), api in self._apis.items():
            for error, count in api.errors.items():
                tags = {"request": name, "error": error}
                page.add("kafka.network:type=RequestMetrics,name=ErrorsPerSec", "counter", tags, count)
        for listener, seen in self._listeners.items():
            self._listener_page(page, {"listener": listener}, seen)
        for (name, pairs), counter in self._counters.items():
            page.add(name, "counter", dict(pairs), counter.count)
        for (name, pairs), histogram in self._histograms.items():
            page.summary(name, dict(pairs), histogram)
        for name, tags, read in self._gauges:
            page.add(name, "gauge", tags, read())
        for name, kind, family in self._families:
            for labels, value in family():
                page.add(name, kind, labels, value)
        for collect in self._collectors:
            for name, kind, labels, value in collect():
                page.add(name, kind, labels, value)
        return page

    def _listener_page(self, page: _Page, tags: Tags, seen: ListenerMetrics) -> None:
        group = "kafka.server:type=socket-server-metrics"
        page.add(f"{group},name=connection-count", "gauge", tags, seen.created - seen.closed)
        page.add(f"{group},name=connection-creation-total", "counter", tags, seen.created)
        page.add(f"{group},name=connection-close-total", "counter", tags, seen.closed)
        page.add(f"{group},name=connection-refused-total", "counter", tags, seen.refused)
        page.add(f"{group},name=expired-connections-killed-count", "counter", tags, seen.expired)
        page.add(f"{group},name=connection-accept-throttle-time", "gauge", tags, seen.throttles.value)
        page.add(f"{group},name=ip-connection-accept-throttle-time", "gauge", tags, seen.ip_throttles.value)
        page.add(f"{group},name=incoming-byte-total", "counter", tags, seen.bytes_in)
        page.add(f"{group},name=outgoing-byte-total", "counter", tags, seen.bytes_out)


class _Page:
    """The lines of each name together, as Prometheus asks for."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], dict[str, float]] = {}
        self._names: dict[str, None] = {}

    @property
    def names(self) -> list[str]:
        return list(self._names)

    def add(self, name: str, kind: str, tags: Tags, value: float) -> None:
        self._names[name] = None
        shown = prometheus_name(name, kind)
        lines = self._lines.setdefault((shown, kind), {})
        line = f"{shown}{_labels(tags)}"
        # The same error in two versions of an API is one line.
        lines[line] = lines.get(line, 0) + value

    def summary(self, name: str, tags: Tags, histogram: Histogram) -> None:
        self._names[name] = None
        shown = prometheus_name(name, "summary")
        lines = self._lines.setdefault((shown, "summary"), {})
        for fraction in QUANTILES:
            lines[f"{shown}{_labels({**tags, 'quantile': str(fraction)})}"] = histogram.quantile(fraction)
        lines[f"{shown}_sum{_labels(tags)}"] = histogram.total
        lines[f"{shown}_count{_labels(tags)}"] = histogram.count

    def text(self) -> str:
        out = []
        for (name, kind), lines in self._lines.items():
            out.append(f"# TYPE {name} {kind}\n")
            out.extend(f"{line} {value}\n" for line, value in lines.items())
        return "".join(out)


def prometheus_name(name: str, kind: str) -> str:
    """Kafka's name of a metric in the form that the JMX exporter gives it."""
    group, _, rest = name.partition(":")
    words = [group, *(part.partition("=")[2] for part in rest.split(","))]
    shown = "_".join(word.replace(".", "_").replace("-", "_") for word in words if word).lower()
    if kind == "counter":
        shown = shown.removesuffix("persec").removesuffix("_total").removesuffix("_count") + "_total"
    return shown


def _labels(tags: Tags) -> str:
    if not tags:
        return ""
    shown = ",".join(f'{name}="{_escape(value)}"' for name, value in tags.items())
    return f"{{{shown}}}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
