"""ETL: a pipeline in a YAML or Python file, from a source over transforms to a sink, with bad records accounted for.

`load` reads a file and `Pipeline` describes one in Python; neither needs Spark. `run` runs one. Names are looked up
when they are first asked for, so that `ottla pipeline validate` answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.pipelines.connect.errors import Problem as Problem
    from ottla.pipelines.connect.errors import SpecError as SpecError
    from ottla.pipelines.connect.runner import run as run
    from ottla.pipelines.connect.spec import Pipeline as Pipeline
    from ottla.pipelines.connect.spec import load as load

_LAZY: dict[str, tuple[str, ...]] = {
    "ottla.pipelines.connect.errors": ("Problem", "SpecError"),
    "ottla.pipelines.connect.runner": ("run",),
    "ottla.pipelines.connect.spec": ("Pipeline", "load"),
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
