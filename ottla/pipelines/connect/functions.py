"""The functions that a pipeline file names: whether they exist, the functions themselves, and how workers get them.

A `function` is `file.py:function`, with the file beside the pipeline's, or `module:function`, with a module that stands
there or is installed. Its file may import modules and packages that stand beside it, at its top or inside a function.

Promises: `problem` runs nothing of the user's and imports nothing. `send` gives the workers everything that the files
import from beside them, in one archive, before the first function is pickled; what is installed has to be installed on
the workers too. Called by `spec` and `transforms`.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import importlib
import importlib.machinery
import importlib.util
import re
import shutil
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ottla.pipelines.connect.errors import nearest
from ottla.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Function = Callable[..., Any]


class FunctionError(PipelineError):
    """A function that is not there or cannot be imported."""


@dataclass(frozen=True, slots=True)
class Reference:
    """`file.py:function` or `module:function`, as a pipeline file in `directory` has it."""

    where: str
    name: str
    directory: str

    @classmethod
    def of(cls, text: str, directory: str) -> Reference:
        where, _, name = text.rpartition(":")
        if not where or not name.isidentifier():
            raise FunctionError(f"a function is module:function or file.py:function, and not {text}")
        return cls(where, name, directory)

    @property
    def is_file(self) -> bool:
        return self.where.endswith(".py")

    @property
    def path(self) -> Path | None:
        """The Python source that has the function; None where it is a module without one."""
        if self.is_file:
            path = Path(self.directory, self.where).resolve()
            if not path.is_file():
                raise FunctionError(f"there is no file {path}")
            return path
        return _find_module(self.where, self.directory)

    @property
    def roots(self) -> list[str]:
        """Where its imports are looked for, before what is installed."""
        beside = [str(self.path.parent)] if self.is_file and self.path else []
        return list(dict.fromkeys([*beside, self.directory]))


def problem(text: str, directory: str) -> str | None:
    """What is wrong with a reference, as far as the files tell; None where nothing is."""
    try:
        reference = Reference.of(text, directory)
        path = reference.path
        if path is None:
            return None
        names = _defined(path)
    except FunctionError as error:
        return str(error)
    if names is None or reference.name in names:
        return None
    return f"{path} has no function {reference.name}: {nearest(reference.name, sorted(names) or ['nothing'])}"


def load(reference: Reference) -> Function:
    """The function, imported here."""
    for root in reversed(reference.roots):
        if root not in sys.path:
            sys.path.insert(0, root)
    try:
        module = _file_module(reference) if reference.is_file else importlib.import_module(reference.where)
    except FunctionError:
        raise
    except Exception as error:  # the file is the user's, and so is whatever it raises
        raise FunctionError(f"{reference.where} cannot be imported: {_raised(error, reference)}") from error
    found = getattr(module, reference.name, None)
    if not callable(found):
        public = [name for name in vars(module) if not name.startswith("_")]
        raise FunctionError(
            f"{reference.where} has no function {reference.name}: {nearest(reference.name, public or ['nothing'])}"
        )
    return found  # type: ignore[no-any-return]


def send(spark: SparkSession, references: Iterable[Reference], pipeline_file: str) -> None:
    """Give the workers what the functions, and a pipeline file in Python, import from beside them."""
    modules: dict[str, Path] = {}
    sources: dict[str, bytes] = {}
    for reference in references:
        path = reference.path
        if path is None:
            continue
        if reference.is_file:
            source = path.read_bytes()
            sources[f"{_module_name(path, source)}.py"] = source
            modules |= _reached(_imported_names(path), reference.roots)
        else:
            modules |= _reached([reference.where], reference.roots)
    if pipeline_file.endswith(".py"):
        path = Path(pipeline_file).resolve()
        modules |= _reached(_imported_names(path), [str(path.parent)])
    for name, path in modules.items():
        if _is_the_one_loaded(name, path):
            steps = name.split(".")
            inside = [*steps, "__init__.py"] if path.name == "__init__.py" else [*steps[:-1], f"{steps[-1]}.py"]
            sources["/".join(inside)] = path.read_bytes()
    if sources:
        spark.addArtifacts(str(_archive(sources)), pyfile=True)


def _file_module(reference: Reference) -> ModuleType:
    """A file as a module under a name of its own, which the workers find in the archive."""
    path = reference.path
    assert path is not None, "a file has a path"
    name = _module_name(path, path.read_bytes())
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "it is a Python file"
    assert spec.loader is not None, "likewise"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _module_name(path: Path, source: bytes) -> str:
    """Of the file's place and content: a worker that has imported an older version does not take it for this one."""
    digest = hashlib.sha256(str(path).encode() + b"\0" + source).hexdigest()[:12]
    return f"ottla_pipeline_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}_{digest}"


def _raised(error: Exception, reference: Reference) -> str:
    """What importing a file raised, with the line of it that the error came over last."""
    path = reference.path
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: not Python: {error.msg}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    place = f"{path}:{lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {error}"


def _find_module(name: str, directory: str) -> Path | None:
    """The source of a module, found as an import would find it, without importing a package on the way."""
    beside = _file_of(name, [directory])
    if beside is not None:
        return beside
    if name in sys.modules:
        return _source(getattr(sys.modules[name], "__file__", None))
    first, *steps = name.split(".")
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):
        spec = None
    whole = first
    for step in steps:
        if spec is None:
            break
        whole = f"{whole}.{step}"
        spec = importlib.machinery.PathFinder.find_spec(whole, spec.submodule_search_locations or [])
    if spec is None:
        raise FunctionError(f"there is no module {name}, neither beside the pipeline's file nor installed")
    return _source(spec.origin)


def _source(file: str | None) -> Path | None:
    return Path(file) if file is not None and file.endswith(".py") else None


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        raise FunctionError(f"{path}:{error.lineno}: not Python: {error.msg}") from None
    except (OSError, ValueError) as error:
        raise FunctionError(f"{path} cannot be read: {error}") from None


def _defined(path: Path) -> set[str] | None:
    """The names that a file defines at its top; None where only running it can tell."""
    names: set[str] = set()
    left: list[ast.AST] = [_parsed(path)]
    while left:
        node = left.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Lambda():
                pass
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    if alias.name == "*":
                        return None
                    names.add(alias.asname or alias.name.partition(".")[0])
            case _:
                left += ast.iter_child_nodes(node)
    return None if "__getattr__" in names else names


def _reached(names: Iterable[str], roots: list[str]) -> dict[str, Path]:
    """Of these modules and all that they import, those that stand beside the file."""
    found: dict[str, Path] = {}
    left = list(names)
    while left:
        name = left.pop()
        package = name.rpartition(".")[0]
        if package:
            left.append(package)  # an import of `a.b` imports `a` first
        file = None if name in found else _file_of(name, roots)
        if file is not None:
            found[name] = file
            left += _imported_names(file, name if file.name == "__init__.py" else package)
    return found


def _imported_names(path: Path, package: str = "") -> Iterator[str]:
    """Every module that a file of a package may import, inside its functions too."""
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".") if node.level else []
            steps = [*above[: len(above) - node.level + 1], *(node.module or "").split(".")]
            base = ".".join(filter(None, steps))
            yield base
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)


def _file_of(name: str, roots: list[str]) -> Path | None:
    """The source of a module that stands beside the file."""
    for root in roots:
        place = Path(root, *name.split("."))
        for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if path.is_file():
                return path.resolve()
    return None


def _is_the_one_loaded(name: str, path: Path) -> bool:
    """Whether the driver has this module, or none of the name yet; False for one of Python's own, which goes first."""
    loaded = getattr(sys.modules.get(name), "__file__", None)
    if loaded is None or Path(loaded).resolve() == path:
        return name.partition(".")[0] not in sys.stdlib_module_names
    if name.partition(".")[0] in sys.stdlib_module_names:
        return False
    raise FunctionError(f"the pipeline means {path} by {name}, and this process has imported {loaded} as {name}")


def _archive(sources: Mapping[str, bytes]) -> Path:
    """A zip file of modules, which stays as long as this process: an executor that starts late asks for it late."""
    digest = hashlib.sha256(repr(sorted(sources.items())).encode()).hexdigest()[:16]
    directory = tempfile.mkdtemp(prefix="ottla-functions-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = Path(directory, f"ottla-functions-{digest}.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for name, source in sorted(sources.items()):
            # Always the same bytes: Spark takes a file that it has already, and refuses another one of its name.
            archive.writestr(zipfile.ZipInfo(name), source)
    return path
