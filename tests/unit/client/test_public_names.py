"""The front door of the clients: what it names, for Python and for type checkers."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import ottla.client

SOURCE = Path(ottla.client.__file__)


def test_type_checkers_are_told_the_names_that_python_finds() -> None:
    told = {
        alias.name: node.module
        for block in ast.parse(SOURCE.read_text(encoding="utf-8")).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == ottla.client._HOME


def test_every_public_name_is_where_it_is_said_to_be() -> None:
    for name, module in ottla.client._HOME.items():
        assert getattr(ottla.client, name) is getattr(importlib.import_module(module), name)
        assert name in dir(ottla.client)


HEAVY = ("pyarrow", "numpy", "fastavro", "opentelemetry", "click", "rich")
BROKER = ("ottla.storage", "ottla.server", "ottla.node", "ottla.coordinator", "ottla.config.broker")


def modules_after(code: str) -> list[str]:
    """What is loaded once `code` has run in a new process."""
    told = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return told.stdout.split()


def test_the_front_door_loads_nothing_before_it_is_asked() -> None:
    loaded = modules_after("import ottla.client")
    assert sorted(name for name in loaded if name.startswith("ottla.")) == ["ottla.client", "ottla.lazy"]
    assert "asyncio" not in loaded


def test_clients_load_neither_the_broker_nor_what_is_an_extra() -> None:
    loaded = modules_after("from ottla.client import Producer, Consumer, Admin")
    assert "ottla.client.consumer.sync_consumer" in loaded
    assert [name for name in loaded if name.split(".")[0] in HEAVY or name.startswith(BROKER)] == []
