"""Kafka Streams' model on Spark: a topology of streams and tables, described, drawn, tested without a broker, run.

Importing this imports no Spark: names are looked up when they are first asked for. A new name is added twice, below for
type checkers and in `_LAZY`.
"""

from typing import TYPE_CHECKING

from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.pipelines.streams import aggregates as aggregates
    from ottla.pipelines.streams.builder import StreamsBuilder as StreamsBuilder
    from ottla.pipelines.streams.cogrouped import CogroupedKStream as CogroupedKStream
    from ottla.pipelines.streams.driver import TopologyTestDriver as TopologyTestDriver
    from ottla.pipelines.streams.driver import Windowed as Windowed
    from ottla.pipelines.streams.expressions import python as python
    from ottla.pipelines.streams.graph import Node as Node
    from ottla.pipelines.streams.graph import Topology as Topology
    from ottla.pipelines.streams.handlers import RecordError as RecordError
    from ottla.pipelines.streams.kstream import KGroupedStream as KGroupedStream
    from ottla.pipelines.streams.kstream import KStream as KStream
    from ottla.pipelines.streams.kstream import WindowedKStream as WindowedKStream
    from ottla.pipelines.streams.ktable import GlobalKTable as GlobalKTable
    from ottla.pipelines.streams.ktable import KGroupedTable as KGroupedTable
    from ottla.pipelines.streams.ktable import KTable as KTable
    from ottla.pipelines.streams.running import Running as Running
    from ottla.pipelines.streams.serdes import Serde as Serde
    from ottla.pipelines.streams.serdes import json as json
    from ottla.pipelines.streams.windows import JoinWindows as JoinWindows
    from ottla.pipelines.streams.windows import SessionWindows as SessionWindows
    from ottla.pipelines.streams.windows import SlidingWindows as SlidingWindows
    from ottla.pipelines.streams.windows import TimeWindows as TimeWindows

_LAZY: dict[str, tuple[str, ...]] = {
    "builder": ("StreamsBuilder",),
    "cogrouped": ("CogroupedKStream",),
    "expressions": ("python",),
    "graph": ("Node", "Topology"),
    "handlers": ("RecordError",),
    "kstream": ("KGroupedStream", "KStream", "WindowedKStream"),
    "ktable": ("GlobalKTable", "KGroupedTable", "KTable"),
    "running": ("Running",),
    "serdes": ("Serde", "json"),
    "driver": ("TopologyTestDriver", "Windowed"),
    "windows": ("JoinWindows", "SessionWindows", "SlidingWindows", "TimeWindows"),
}
_HOME = {name: module for module, names in _LAZY.items() for name in names}

__all__ = list(_HOME)  # and a type checker has the imports above

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOME)
