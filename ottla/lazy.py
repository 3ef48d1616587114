"""Packages that load what is asked of them and no more: a name's module is imported when the name is first used.

A package lists its names for type checkers, as imports under `TYPE_CHECKING`, and their homes for `front_door`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def front_door(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package; `homes` has the module of each name, one of its own or any other.

    ```
    __getattr__, __dir__ = front_door(__name__, {"Cluster": "cluster", "Batch": "ottla.records"})
    ```
    """

    def get(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home if "." in home else f"{package}.{home}"), name)
        setattr(sys.modules[package], name, value)  # found at once from now on
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names
