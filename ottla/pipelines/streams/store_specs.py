"""How a named table's store lies in its changelog, or in the topic it is made of: what `queryable` has to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.graph import Aggregate, GlobalSource, Source, Topology
from ottla.pipelines.streams.stores import StoreKind, StoreSpec, serde
from ottla.pipelines.streams.windows import SessionWindows, SlidingWindows, TimeWindows

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from ottla.pipelines.streams.compiler.queries import Shape


def store_spec(work: Aggregate, shape: Shape) -> StoreSpec:
    """The store of an aggregate whose results have this shape."""
    value = serde(_name(shape.value))
    match work.windows:
        case None:
            return StoreSpec(name=work.store, key=serde(_name(shape.key)), value=value)
        case TimeWindows(size_ms=size_ms) | SlidingWindows(difference_ms=size_ms):
            kind, key = StoreKind.WINDOW, serde(_name(_inner(shape)))
            return StoreSpec(name=work.store, kind=kind, key=key, value=value, window_ms=size_ms)
        case SessionWindows():
            return StoreSpec(name=work.store, kind=StoreKind.SESSION, key=serde(_name(_inner(shape))), value=value)


def source_stores(topology: Topology) -> dict[str, tuple[str, StoreSpec]]:
    """The tables and global tables of topics that have a name: the topic is the changelog, as in Kafka Streams.

    Those whose serde is a user's own are left out: its functions are of Spark's Columns, and nobody else can call them.
    """
    found: dict[str, tuple[str, StoreSpec]] = {}
    for node in topology.nodes.values():
        match node.work:
            case Source(topics=(topic,), table=True, store=str() as name) | GlobalSource(topic=topic, store=name):
                key, value = node.work.key, node.work.value
                if all(one.decode is None for one in (key, value)):
                    found[name] = topic, StoreSpec(name=name, key=serde(key.name), value=serde(value.name))
    return found


def _inner(shape: Shape) -> DataType:
    from pyspark.sql.types import StructType

    if not isinstance(shape.key, StructType):
        raise PipelineError(f"a windowed table's key is a struct, not {shape.key.simpleString()}")
    return shape.key["key"].dataType


def _name(kind: DataType) -> str:
    from ottla.pipelines.streams.compiler.columns import serde_of

    return serde_of(kind).name
