"""Data pipelines on Spark: topics as DataFrames, Kafka Streams' model, ETL.

`pip install 'ottla[spark]'` brings what this package needs; importing it imports neither Spark nor Arrow. Names are
looked up when they are first asked for: a new name is added twice, below for type checkers and in `_LAZY`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.pipelines.errors import MissingDependency as MissingDependency
    from ottla.pipelines.errors import PipelineError as PipelineError
    from ottla.pipelines.spark import session as session

_LAZY: dict[str, tuple[str, ...]] = {
    "ottla.pipelines.errors": ("MissingDependency", "PipelineError"),
    "ottla.pipelines.spark": ("session",),
}
_HOME = {name: module for module, names in _LAZY.items() for name in names}

__all__ = list(_HOME)  # and a type checker has the imports above


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
