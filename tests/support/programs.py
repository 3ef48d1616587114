"""Test clients in other languages: built or installed once into a cache outside the repository, then run.

`go_program` builds a Go module, `node_program` installs the packages of a Node program, `java_program` compiles a Java
class that is started often. Where the toolchain or its registry is missing, the test is skipped with the reason.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.maven import cache_dir

BUILD_S = 600


def go_program(source: Path) -> list[str]:
    """The command that runs the Go module in `source`."""

    def build(home: Path) -> Sequence[Sequence[str]]:
        return [["go", "build", "-o", str(home / "program"), "."]]

    return [str(_prepared("go", source, build) / "program")]


def node_program(source: Path) -> list[str]:
    """The command that runs `main.js` in `source`, with the packages of its `package.json`."""

    def build(home: Path) -> Sequence[Sequence[str]]:
        return [["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock"]]

    return ["node", str(_prepared("npm", source, build) / "main.js")]


def java_program(source: Path, classpath: str) -> list[str]:
    """The command that runs `Main.java` in `source`, compiled once, with the classes of that path."""

    def build(home: Path) -> Sequence[Sequence[str]]:
        return [["javac", "-cp", classpath, "-d", str(home), str(home / "Main.java")]]

    home = _prepared("javac", source, build)
    return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{home}:{classpath}", "Main"]


def run(command: Sequence[str], *arguments: str, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; the exit code is the caller's to check."""
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=timeout, check=False)


def _prepared(tool: str, source: Path, build: Callable[[Path], Sequence[Sequence[str]]]) -> Path:
    """A copy of `source` in the cache in which the build has been run."""
    if shutil.which(tool) is None:
        pytest.skip(f"needs `{tool}` to build {source.name}")
    files = sorted(path for path in source.iterdir() if path.is_file())
    digest = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()[:16]
    home = cache_dir() / f"{source.name}-{digest}"
    home.mkdir(parents=True, exist_ok=True)
    with open(home / ".lock", "w") as lock:  # xdist workers and concurrent runs build once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / ".complete").exists():
            for path in files:
                shutil.copy(path, home / path.name)
            for command in build(home):
                done = subprocess.run(
                    command, cwd=home, capture_output=True, text=True, timeout=BUILD_S, check=False,
                    env={**os.environ, "GOFLAGS": "-buildvcs=false"},
                )  # fmt: skip
                if done.returncode != 0:
                    lines = (done.stderr + done.stdout).strip().splitlines() or ["no output"]
                    pytest.skip(f"`{' '.join(command[:2])}` of {source.name} failed: {lines[0]}")
            (home / ".complete").touch()
    return home
