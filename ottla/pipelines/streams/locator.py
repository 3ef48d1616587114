"""Where a tool finds a user's topology: `FILE`, `FILE:name` or `module:name`.

The name is that of a `Topology` or of a function without arguments that returns one; of a file alone it is `topology`,
or the only topology there is. Promises: nothing but the module itself is run, as by an import, so what starts Spark
belongs under `if __name__ == "__main__"`. Called by `ottla pipeline plan`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.function_text import LOADED
from ottla.pipelines.streams.graph import Topology

NAME = "topology"


def find_topology(place: str) -> Topology:
    """The topology; `PipelineError` in one line where there is none."""
    where, _, name = place.partition(":")
    module = _file(Path(where)) if where.endswith(".py") or os.sep in where else _module(where)
    if not name:
        name = _only(module, place)
    if not hasattr(module, name):
        raise PipelineError(f"{where} has no {name}: name what it has as {where}:NAME")
    found = getattr(module, name)
    if callable(found):
        found = found()
    if not isinstance(found, Topology):
        raise PipelineError(f"{where}:{name} is no topology: it is what StreamsBuilder.build() returns")
    return found


def _only(module: ModuleType, place: str) -> str:
    if hasattr(module, NAME):
        return NAME
    names = [name for name, value in vars(module).items() if isinstance(value, Topology)]
    if len(names) != 1:
        has = f"has {', '.join(names)}" if names else "has none"
        raise PipelineError(f"{place} {has}: name the topology, or a function that returns it, as {place}:NAME")
    return names[0]


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise PipelineError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"{LOADED}{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent.resolve()))  # as Python does for a script
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PipelineError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module


def _module(name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise PipelineError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
