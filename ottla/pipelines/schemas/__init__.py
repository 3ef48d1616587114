"""Topics' bytes as columns with types, and back: JSON, Avro, Protobuf, with a schema or with a registry.

    orders = from_topic(df, "id long, note string")                                     # JSON
    orders = from_topic(df, "http://registry:8081", format="avro", topic="orders")     # what the registry knows
    to_topic(orders, format="avro", registry="http://registry:8081", topic="orders")   # a schema made of the columns

DataFrame in, DataFrame out. See docs/pipelines/schemas.md, and README.md beside this file for the modules.
"""

from typing import TYPE_CHECKING

from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.pipelines.schemas.registry import RegistryAddress as RegistryAddress
    from ottla.pipelines.schemas.topics import from_topic as from_topic
    from ottla.pipelines.schemas.topics import to_topic as to_topic

_HOME = {"from_topic": "topics", "to_topic": "topics", "RegistryAddress": "registry"}

__all__ = list(_HOME)  # and a type checker has the imports above

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOME)
