"""Kafka's own jars from Maven Central, fetched once into a cache outside the repository.

`kafka_classpath()` returns a Java class path with `kafka_2.13` and `kafka-tools`, `streams_classpath()` one with Kafka
Streams; both skip the test with the reason when this machine has no Java, no Maven or no registry. Called by tests
marked `java`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

KAFKA_VERSION = "4.3.1"
_LOGGING = ("org.slf4j", "slf4j-nop", "1.7.36")


def cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "ottla-tests"


def kafka_classpath() -> str:
    """A broker, the clients and the tools."""
    return _fetched(
        "kafka",
        ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
        ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    )


def streams_classpath() -> str:
    """Kafka Streams and the clients."""
    return _fetched("kafka-streams", ("org.apache.kafka", "kafka-streams", KAFKA_VERSION))


def _fetched(name: str, *artifacts: tuple[str, str, str]) -> str:
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs `{tool}` to run Kafka's own jars")
    home = cache_dir() / f"{name}-{KAFKA_VERSION}"
    home.mkdir(parents=True, exist_ok=True)
    with open(home / ".lock", "w") as lock:  # xdist workers and concurrent runs fetch once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / ".complete").exists():
            (home / "pom.xml").write_text(_pom(name, [*artifacts, _LOGGING]))
            command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={home / 'libs'}"]
            fetched = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=600, check=False)
            if fetched.returncode != 0:
                lines = (fetched.stdout + fetched.stderr).strip().splitlines() or ["no output"]
                pytest.skip(f"Maven could not fetch {name} {KAFKA_VERSION}: {lines[0]}")
            (home / ".complete").touch()
    return f"{home / 'libs'}/*"


def _pom(name: str, artifacts: Sequence[tuple[str, str, str]]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        "</dependency>"
        for group, artifact, version in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>ottla.tests</groupId><artifactId>{name}-jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def run_java(
    main: str, arguments: Sequence[str], timeout: float = 100, *, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's main classes, or a source file, to its end; the exit code is the caller's to check."""
    command = java_command(main, arguments)
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)


def java_command(main: str, arguments: Sequence[str]) -> list[str]:
    """The command that runs one of Kafka's main classes, or a source file, for a test that talks to it meanwhile."""
    return [*_java(), main, *arguments]


def run_java_raw(
    main: str, arguments: Sequence[str], *, cwd: Path, timeout: float = 100
) -> subprocess.CompletedProcess[bytes]:
    """The same in a directory, with the very bytes of its output: UTF-8 whatever this machine's locale is."""
    command = [*_java(), "-Dfile.encoding=UTF-8", main, *arguments]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    return subprocess.run(command, capture_output=True, cwd=cwd, env=environment, timeout=timeout, check=False)


def _java() -> list[str]:
    # What makes a short run short: one compiler, one collector thread.
    return ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", kafka_classpath()]
