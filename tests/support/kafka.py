"""Kafka's own jars, and its classes run as processes.

`kafka_classpath()` returns a Java class path with `kafka_2.13` and `kafka-tools`, `streams_classpath()` one with Kafka
Streams; both skip the test with the reason when this machine has no Java, no Maven or no registry. Called by tests
marked `java`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.maven import jars

KAFKA_VERSION = "4.3.1"
_LOGGING = ("org.slf4j", "slf4j-nop", "1.7.36")


def kafka_classpath() -> str:
    """A broker, the clients and the tools."""
    return jars(
        f"kafka-{KAFKA_VERSION}",
        ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
        ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
        _LOGGING,
    )


def streams_classpath() -> str:
    """Kafka Streams and the clients."""
    return jars(f"kafka-streams-{KAFKA_VERSION}", ("org.apache.kafka", "kafka-streams", KAFKA_VERSION), _LOGGING)


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
