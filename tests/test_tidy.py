"""The architecture as a test: layers, the one door to the outside, a docstring for every module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ottla"

# From the ground up. A module imports from its own layer and from those below it, never from above.
# A package not named here fails the test: adding one means saying where it stands.
LAYERS: list[set[str]] = [
    {"types", "lazy"},
    {"errors"},
    {"wire"},
    {"records"},
    {"config"},
    {"world"},
    {"net"},
    {"client"},
    {"storage"},
    {"machine"},
    {"raft"},
    {"metadata"},
    {"coordinator"},
    {"replica"},
    {"server"},
    {"node"},
    {"sim"},
    {"testing"},
    {"pipelines"},
    {"cli"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

# The outside, and who may touch it. `random.Random` is only a type in `world.world`.
OUTSIDE = {
    "os",
    "io",
    "time",
    "random",
    "socket",
    "select",
    "selectors",
    "threading",
    "subprocess",
    "shutil",
    "fcntl",
    "mmap",
    "tempfile",
    "pathlib",
    "asyncio",
    "signal",
    "secrets",
    "datetime",
    "glob",
    "multiprocessing",
}
DOORS = {"world", "sim"}  # the real door, and the virtual one
# A command is a process of its own: it has a terminal, arguments and an exit code. What tests use starts processes.
# Pipelines run in Spark's processes, which have their own time, threads and files.
COMMANDS = {"cli", "testing", "pipelines"}
# The broker's stack and the clients never import each other: each is used without the other.
BROKER = {"storage", "machine", "raft", "metadata", "coordinator", "replica", "server", "node"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            yield node.lineno, node.module or ""


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), f"{path} has no docstring"


def test_imports_point_down_the_layers() -> None:
    wrong = []
    for path in modules():
        layer = layer_of(path)
        if layer in ("__init__", "__main__"):
            continue
        assert layer in RANK, f"{layer} stands in no layer: name it in LAYERS"
        for line, name in imports(path):
            parts = name.split(".")
            if parts[0] != "ottla" or len(parts) == 1 or parts[1] == layer:
                continue
            if RANK[parts[1]] >= RANK[layer] or (layer in BROKER and parts[1] == "client"):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {layer} imports {name}, which is not below it")
    assert not wrong, "\n".join(wrong)


def test_only_world_touches_the_outside() -> None:
    wrong = []
    for path in modules():
        if layer_of(path) in DOORS | COMMANDS:
            continue
        for line, name in imports(path):
            if name.split(".")[0] in OUTSIDE:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {name} is the outside; ask `World` for it")
    assert not wrong, "\n".join(wrong)


def test_a_package_is_reached_through_its_front_door() -> None:
    """`ottla.storage.segment` is inside: only `storage` imports it; others import what `ottla.storage` names.

    The command line may go deeper, because it loads as little as it can.
    """
    wrong = []
    for path in modules():
        layer = layer_of(path)
        if layer in COMMANDS:
            continue
        for line, name in imports(path):
            parts = name.split(".")
            if name in PUBLIC_INSIDES or name.startswith(PUBLIC_FAMILIES):
                continue
            if parts[0] == "ottla" and len(parts) > 2 and parts[1] != layer:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {name} is inside another package")
    assert not wrong, "\n".join(wrong)


# Modules of a package that are doors of their own: each is large and wanted alone.
PUBLIC_INSIDES: set[str] = {
    "ottla.config.security",
    "ottla.config.table",
    "ottla.coordinator.group",
    "ottla.coordinator.group.streams",
    "ottla.coordinator.share",
    "ottla.coordinator.transaction",
    "ottla.wire.messages",
    "ottla.replica.share",
    "ottla.world.system",
    "ottla.world.http",
    "ottla.world.locks",
    "ottla.world.threads",
    "ottla.world.system_loop",
    "ottla.metadata.controller",
    "ottla.wire.frames",
    "ottla.wire.json_form",
}

# Packages of many small modules, each imported by whoever speaks that API or reads that record.
PUBLIC_FAMILIES = ("ottla.wire.messages.", "ottla.wire.metadata", "ottla.wire.coordinator", "ottla.wire.data.")
