"""Topics' bytes as columns with types, and back: JSON, Avro, Protobuf, with a schema or with a registry.

    orders = from_topic(df, "id long, note string")                                     # JSON
    orders = from_topic(df, "http://registry:8081", format="avro", topic="orders")     # what the registry knows
    to_topic(orders, format="avro", registry="http://registry:8081", topic="orders")   # a schema made of the columns

DataFrame in, DataFrame out. See docs/pipelines/schemas.md, and README.md beside this file for the modules.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.pipelines.schemas.registry import RegistryAddress as RegistryAddress
    from ottla.pipelines.schemas.topics import from_topic as from_topic
    from ottla.pipelines.schemas.topics import to_topic as to_topic

_HOME = {"from_topic": "topics", "to_topic": "topics", "RegistryAddress": "registry"}

__all__ = list(_HOME)  # and a type checker has the imports above


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
