"""The writing half of `format("ottla")`: rows to topics, exactly once or at least once.

`writer` and `stream_writer` are for the data source; `to_partitions`, `already_placed` and `write_stream` for
whoever writes a query.
Names are loaded when they are first asked for: importing this imports neither Spark nor Arrow.
"""

from typing import TYPE_CHECKING

from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.pipelines.sink.partitioning import already_placed as already_placed
    from ottla.pipelines.sink.partitioning import to_partitions as to_partitions
    from ottla.pipelines.sink.partitioning import write_stream as write_stream
    from ottla.pipelines.sink.writers import stream_writer as stream_writer
    from ottla.pipelines.sink.writers import writer as writer

_HOME = {
    "already_placed": "partitioning",
    "to_partitions": "partitioning",
    "write_stream": "partitioning",
    "writer": "writers",
    "stream_writer": "writers",
}

__all__ = list(_HOME)  # and a type checker has the imports above

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOME)
