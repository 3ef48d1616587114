"""Jars from Maven Central, fetched once into a cache outside the repository.

`jars("kafka-4.3.1", ("org.apache.kafka", "kafka_2.13", "4.3.1"))` returns a Java class path with the artifacts and what
they stand on; it skips the test with the reason when this machine has no Java, no Maven or no registry. Called by tests
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

Artifact = tuple[str, str, str]
"""Group, name and version."""
FETCH_S = 600


def cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "ottla-tests"


def jars(name: str, *artifacts: Artifact, transitive: bool = True) -> str:
    """A class path; `name` is that of the set in the cache, so another set or version has another name.

    Without `transitive` it has the artifacts alone, for what has the rest itself.
    """
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs `{tool}` for the jars of {name}")
    home = cache_dir() / name
    home.mkdir(parents=True, exist_ok=True)
    with open(home / ".lock", "w") as lock:  # xdist workers and concurrent runs fetch once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / ".complete").exists():
            (home / "pom.xml").write_text(_pom(name, artifacts, transitive=transitive))
            command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={home / 'libs'}"]
            fetched = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=FETCH_S, check=False)
            if fetched.returncode != 0:
                lines = (fetched.stdout + fetched.stderr).strip().splitlines() or ["no output"]
                pytest.skip(f"Maven could not fetch {name}: {lines[0]}")
            (home / ".complete").touch()
    return f"{home / 'libs'}/*"


def _pom(name: str, artifacts: Sequence[Artifact], *, transitive: bool) -> str:
    nothing_else = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"{'' if transitive else nothing_else}</dependency>"
        for group, artifact, version in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>ottla.tests</groupId><artifactId>{name}-jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
