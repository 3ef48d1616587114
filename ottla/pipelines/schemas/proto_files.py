"""Protobuf's descriptors: where they come from, and the classes that they make.

A driver is given a generated class, a descriptor set (`protoc --include_imports -o FILE`), `.proto` text or a
registry's schema. All become one descriptor set, as bytes, which travels to the workers. Text is compiled by the real
compiler, on the driver only: `grpcio-tools` if it is installed, otherwise `protoc` if the machine has it.
"""

from __future__ import annotations

import binascii
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ottla.client.serialization import Registry, Schema
from ottla.client.serialization.schema_id import library
from ottla.pipelines.errors import MissingDependency, PipelineError

COMPILE_S = 60
SETS_MAX = 64
"""How many descriptor sets a process keeps built."""
FILE_NAME = "schema.proto"
_BUILT_IN = "google/protobuf/"


def of_class(message_type: type[Any]) -> bytes:
    """The descriptor set of a generated class's file and of those that it imports."""
    files: dict[str, Any] = {}
    _collect(message_type.DESCRIPTOR.file, files)
    return _set_of(files)


def of_text(text: str, imports: Mapping[str, str] | None = None) -> bytes:
    """The descriptor set of `.proto` text; `imports` are the texts that it imports, by name."""
    with tempfile.TemporaryDirectory(prefix="ottla-proto-") as directory:
        for name, used in {**(imports or {}), FILE_NAME: text}.items():
            path = Path(directory, name)
            if not path.resolve().is_relative_to(Path(directory).resolve()):
                raise PipelineError(f"the Protobuf schema imports {name}, which is no name of a file")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(used, encoding="utf-8")
        out = Path(directory, "out.pb")
        command = [*_compiler(), f"-I{directory}", "--include_imports", f"-o{out}", FILE_NAME]
        made = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)
        if made.returncode != 0:
            # The compiler's own log is in between, and the directory is gone when this is read.
            lines = [line for line in made.stderr.replace(f"{directory}/", "").splitlines() if ".proto:" in line]
            raise PipelineError(f"the Protobuf schema cannot be read: {'; '.join(lines) or made.stderr.strip()}")
        return out.read_bytes()


def of_registry(schema: Schema, registry: Registry) -> bytes:
    """The descriptor set of a registry's schema: text, as Java's clients write it, or a descriptor, as Python's do."""
    used: dict[str, Schema] = {}
    _collect_references(schema, registry, used)
    if _descriptor(schema.text) is None:
        texts = {name: other.text for name, other in used.items()}
        return of_text(schema.text, texts)
    files = {}
    for name, other in {**used, FILE_NAME: schema}.items():
        proto = _descriptor(other.text)
        if proto is None:
            raise PipelineError(f"the Protobuf schema is a descriptor, and {name}, which it imports, is text")
        files[proto.name] = proto
    return _set_of(files)


def message_class(files: bytes, name: str | None) -> Any:
    """The class of a message; without a name the first message of the last file, which is the one that was given."""
    pool, last = _pool(files)
    factory = library("google.protobuf.message_factory", "protobuf")
    messages = list(pool.FindFileByName(last).message_types_by_name.values())
    if name is None:
        if not messages:
            raise PipelineError("the Protobuf schema has no message")
        return factory.GetMessageClass(messages[0])
    package = pool.FindFileByName(last).package
    for full_name in (name, f"{package}.{name}"):
        try:
            return factory.GetMessageClass(pool.FindMessageTypeByName(full_name))
        except KeyError:
            continue
    known = ", ".join(message.full_name for message in messages)
    raise PipelineError(f"the Protobuf schema has no message {name}; it has {known}")


@lru_cache(maxsize=SETS_MAX)
def _pool(files: bytes) -> tuple[Any, str]:
    """A pool of its own for each set, so that one process can use two versions of a file; and the set's last file."""
    descriptors = library("google.protobuf.descriptor_pb2", "protobuf")
    pool = library("google.protobuf.descriptor_pool", "protobuf").DescriptorPool()
    try:
        parsed = descriptors.FileDescriptorSet.FromString(files)
    except library("google.protobuf.message", "protobuf").DecodeError as error:
        raise PipelineError(f"the Protobuf descriptor set cannot be read: {error}") from error
    if not parsed.file:
        raise PipelineError("the Protobuf descriptor set is empty")
    given = {file.name: file for file in parsed.file}
    added: set[str] = set()
    for file in parsed.file:
        _add(pool, file, given, added)
    return pool, parsed.file[-1].name


def _add(pool: Any, file: Any, given: Mapping[str, Any], added: set[str]) -> None:
    """A file into the pool, after those that it imports; the built-in ones may be left out of a set."""
    if file.name in added:
        return
    added.add(file.name)
    for name in file.dependency:
        used = given.get(name) or _built_in(name)
        if used is None:
            raise PipelineError(f"the Protobuf descriptor set lacks {name}: make it with --include_imports")
        _add(pool, used, given, added)
    try:
        pool.Add(file)
    except TypeError as error:
        raise PipelineError(f"the Protobuf descriptor set cannot be used: {error}") from error


def _built_in(name: str) -> Any:
    if not name.startswith(_BUILT_IN):
        return None
    module = library(f"{name.removesuffix('.proto').replace('/', '.')}_pb2", "protobuf")
    return library("google.protobuf.descriptor_pb2", "protobuf").FileDescriptorProto.FromString(
        module.DESCRIPTOR.serialized_pb
    )


def _collect(file: Any, files: dict[str, Any]) -> None:
    for used in file.dependencies:
        if used.name not in files:
            _collect(used, files)
    files[file.name] = library("google.protobuf.descriptor_pb2", "protobuf").FileDescriptorProto.FromString(
        file.serialized_pb
    )


def _collect_references(schema: Schema, registry: Registry, used: dict[str, Schema]) -> None:
    for reference in schema.references:
        if reference.name not in used:
            other = registry.version(reference.subject, reference.version).schema
            _collect_references(other, registry, used)
            used[reference.name] = other


def _set_of(files: Mapping[str, Any]) -> bytes:
    made: bytes = (
        library("google.protobuf.descriptor_pb2", "protobuf").FileDescriptorSet(file=files.values()).SerializeToString()
    )
    return made


def _descriptor(text: str) -> Any:
    """A file's descriptor in base64, or None when the text is something else."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
        return library("google.protobuf.descriptor_pb2", "protobuf").FileDescriptorProto.FromString(data)
    except (ValueError, library("google.protobuf.message", "protobuf").DecodeError):
        return None


def _compiler() -> list[str]:
    if find_spec("grpc_tools") is not None:
        # Its own descriptors of the built-in files come with it.
        home = Path(_grpc_tools_home(), "_proto")
        return [sys.executable, "-m", "grpc_tools.protoc", f"-I{home}"]
    if protoc := shutil.which("protoc"):
        return [os.path.abspath(protoc)]
    raise MissingDependency(
        "a Protobuf schema as text needs a compiler: pip install grpcio-tools, or give its descriptor set or class"
    )


def _grpc_tools_home() -> Path:
    spec = find_spec("grpc_tools")
    assert spec is not None, "it was found a moment ago"
    assert spec.origin is not None, "it is a package"
    return Path(spec.origin).parent
