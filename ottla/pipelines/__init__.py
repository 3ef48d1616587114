"""Data pipelines on Spark: topics as DataFrames, Kafka Streams' model, ETL.

`pip install 'ottla[spark]'` brings what this package needs; importing it imports neither Spark nor Arrow. Names are
looked up when they are first asked for: a new name is added twice, below for type checkers and in `_LAZY`.
"""

from typing import TYPE_CHECKING

from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.pipelines.data_source import OttlaDataSource as OttlaDataSource
    from ottla.pipelines.errors import MissingDependency as MissingDependency
    from ottla.pipelines.errors import PipelineError as PipelineError
    from ottla.pipelines.lag import LagListener as LagListener
    from ottla.pipelines.lag import offsets_behind_latest as offsets_behind_latest
    from ottla.pipelines.schemas import RegistryAddress as RegistryAddress
    from ottla.pipelines.schemas import from_topic as from_topic
    from ottla.pipelines.schemas import to_topic as to_topic
    from ottla.pipelines.sink import already_placed as already_placed
    from ottla.pipelines.sink import to_partitions as to_partitions
    from ottla.pipelines.sink import write_stream as write_stream
    from ottla.pipelines.spark import session as session

_LAZY: dict[str, tuple[str, ...]] = {
    "ottla.pipelines.data_source": ("OttlaDataSource",),
    "ottla.pipelines.errors": ("MissingDependency", "PipelineError"),
    "ottla.pipelines.lag": ("LagListener", "offsets_behind_latest"),
    "ottla.pipelines.schemas": ("RegistryAddress", "from_topic", "to_topic"),
    "ottla.pipelines.sink": ("already_placed", "to_partitions", "write_stream"),
    "ottla.pipelines.spark": ("session",),
}
_HOME = {name: module for module, names in _LAZY.items() for name in names}

__all__ = list(_HOME)  # and a type checker has the imports above

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOME)
