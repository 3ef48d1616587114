"""ETL: a pipeline in a YAML or Python file, from a source over transforms to a sink, with bad records accounted for.

`load` reads a file and `Pipeline` describes one in Python; neither needs Spark. `run` runs one. Names are looked up
when they are first asked for, so that `ottla pipeline validate` answers at once.
"""

from typing import TYPE_CHECKING

from ottla.lazy import front_door

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

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOME)
